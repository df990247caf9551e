// Names: params are called as Hugging Face checkpoints call them, sections of fused tensors each by
// a name of its own (the list is at FindWeight in model.h); GGUF has its own names, its own order
// of rows and, for linear attention, of heads.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/bf16.h"
#include "models/model.h"

namespace weft::models {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 30> kLayerNames{{
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_qkvz", "ssm_in"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj", "ssm_out"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.experts.gate_proj.weight", "ffn_gate_exps.weight"},
    {"mlp.experts.up_proj.weight", "ffn_up_exps.weight"},
    {"mlp.experts.down_proj.weight", "ffn_down_exps.weight"},
    {"mlp.experts.gate_up_proj.weight", "ffn_gate_up_exps.weight"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
}};

// The draft head's own, which GGUF keeps in the block behind the last layer.
constexpr std::array<NamePair, 4> kDraftNames{{
    {"mtp.fc.weight", "eh_proj.weight"},
    {"mtp.pre_fc_norm_embedding.weight", "enorm.weight"},
    {"mtp.pre_fc_norm_hidden.weight", "hnorm.weight"},
    {"mtp.norm.weight", "shared_head_norm.weight"},
}};

constexpr std::string_view kTrunk = "model.layers.", kDraft = "mtp.", kDraftLayers = "mtp.layers.";

// "model.layers.3.mlp.up_proj.weight" in its parts.
struct LayerParam {
  std::string_view prefix;  // "model.layers.3."
  int64_t layer = 0;
  bool draft = false;
  std::string_view rest;  // "mlp.up_proj.weight"
};

std::optional<LayerParam> SplitLayer(std::string_view param) {
  const bool draft = param.starts_with(kDraftLayers);
  if (!draft && !param.starts_with(kTrunk)) return std::nullopt;
  const size_t begin = (draft ? kDraftLayers : kTrunk).size(), dot = param.find('.', begin);
  if (dot == std::string_view::npos) return std::nullopt;
  LayerParam split{param.substr(0, dot + 1), 0, draft, param.substr(dot + 1)};
  for (const char digit : param.substr(begin, dot - begin)) {
    if (digit < '0' || digit > '9' || split.layer > io::ConfigLimits::kLayersMax)
      return std::nullopt;
    split.layer = split.layer * 10 + (digit - '0');
  }
  return split;
}

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"; "" if there is no such name.
std::string GgufName(const io::ModelConfig& config, std::string_view param) {
  if (param == "model.embed_tokens.weight") return "token_embd.weight";
  if (param == "model.norm.weight") return "output_norm.weight";
  if (param == "lm_head.weight") return "output.weight";
  for (const auto& [ours, theirs] : kDraftNames) {
    if (param == ours) return fmt::format("blk.{}.nextn.{}", config.layers, theirs);
  }
  const std::optional<LayerParam> at = SplitLayer(param);
  if (!at) return "";
  const int64_t block = at->layer + (at->draft ? config.layers : 0);
  if (at->rest == "post_attention_layernorm.weight") {
    const bool hybrid = config.family == "qwen3_next" || config.family == "qwen3_5";
    return fmt::format("blk.{}.{}.weight", block, hybrid ? "post_attention_norm" : "ffn_norm");
  }
  for (const auto& [ours, theirs] : kLayerNames) {
    if (!at->rest.starts_with(ours)) continue;
    const std::string_view suffix = at->rest.substr(ours.size());
    if (suffix.empty() || suffix == ".weight" || suffix == ".bias")
      return fmt::format("blk.{}.{}{}", block, theirs, suffix);
  }
  return "";
}

// How checkpoints with an image encoder spell a param, the newer form first.
std::array<std::string, 3> Spellings(std::string_view param) {
  const bool trunk = param.starts_with("model.");
  return {std::string(param),
          fmt::format("model.language_model.{}", trunk ? param.substr(6) : param),
          fmt::format("language_model.{}", param)};
}

// A gain that may be stored around zero, as that of linear attention never is.
bool IsGain(std::string_view param) {
  return param.ends_with("norm.weight") || param.starts_with("mtp.pre_fc_norm_");
}

class Finder {
 public:
  explicit Finder(const io::Checkpoint& checkpoint)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        gguf_(checkpoint.format() == io::Format::kGguf) {}

  // HasTiledHeads().
  bool StaysTiled(std::string_view prefix) const {
    if (!Tiles()) return false;
    const io::Tensor* out = Named(fmt::format("{}linear_attn.out_proj.weight", prefix));
    return out != nullptr && config_.linear.value_dim % FactsOf(out->dtype).block_elements != 0;
  }

  Result<WeightSource> Find(std::string_view param) const {
    const std::optional<LayerParam> at = SplitLayer(param);
    if (at && at->rest.starts_with("linear_attn.")) return LinearAttention(*at);
    if (at && at->rest.starts_with("mlp.experts.")) return Experts(*at);
    if (at && config_.attn_output_gate) {
      for (const std::string_view suffix : {".weight", ".bias"}) {
        if (at->rest == fmt::format("self_attn.q_proj{}", suffix)) return QueryPart(*at, suffix, 0);
        if (at->rest == fmt::format("self_attn.q_gate{}", suffix)) return QueryPart(*at, suffix, 1);
      }
    }
    return Plain(param);
  }

 private:
  // The tensor of a param's name, or nullptr.
  const io::Tensor* Named(const std::string& param) const {
    if (gguf_) {
      const std::string name = GgufName(config_, param);
      return name.empty() ? nullptr : checkpoint_.Find(name);
    }
    for (const std::string& name : Spellings(param)) {
      if (const io::Tensor* tensor = checkpoint_.Find(name)) return tensor;
    }
    return nullptr;
  }

  // As the file would have spelt it.
  Status Missing(const std::string& param) const {
    std::string name = gguf_ ? GgufName(config_, param) : param;
    const std::array<std::string, 3> embedding = Spellings("model.embed_tokens.weight"),
                                     ours = Spellings(param);
    for (size_t i = 0; !gguf_ && i < ours.size() && param.starts_with("model."); ++i) {
      if (checkpoint_.Find(embedding[i]) == nullptr) continue;
      name = ours[i];
      break;
    }
    return Status::Invalid("{}: tensor '{}' is missing", checkpoint_.path(),
                           name.empty() ? param : name);
  }

  Status Expect(const io::Tensor& tensor, const std::vector<int64_t>& shape) const {
    if (tensor.shape == shape) return Status::Ok();
    return Status::Invalid("{}: tensor '{}' has shape [{}], [{}] expected", checkpoint_.path(),
                           tensor.name, fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }

  Result<WeightSource> Whole(const std::string& param) const {
    const io::Tensor* tensor = Named(param);
    if (tensor == nullptr) return Missing(param);
    WeightSource source;
    source.tensors = {tensor};
    source.shape = tensor->shape;
    return source;
  }

  Result<WeightSource> Plain(std::string_view param) const {
    WEFT_ASSIGN_OR_RETURN(WeightSource source, Whole(std::string(param)));
    const bool rotated = param.find("q_proj") != std::string_view::npos ||
                         param.find("k_proj") != std::string_view::npos;
    if (gguf_ && rotated && config_.family == "llama") {
      source.order = {.kind = HeadOrder::Kind::kRopePairs, .width = config_.head_dim};
    }
    if (config_.gain_plus_one && IsGain(param)) source.change = ValueChange::kPlusOne;
    // GGUF drops the one row's dimension.
    if (param.ends_with("shared_expert_gate.weight") && source.shape.size() == 1)
      source.shape.insert(source.shape.begin(), 1);
    return source;
  }

  // A tensor whose rows, of `width` inputs or none (a vector), are cut by `section`.
  Result<WeightSource> Part(const std::string& param, int64_t file_rows, int64_t width,
                            int64_t rows, Section section) const {
    WEFT_ASSIGN_OR_RETURN(WeightSource source, Whole(param));
    const auto shape = [&](int64_t n) {
      return width == 0 ? std::vector<int64_t>{n} : std::vector<int64_t>{n, width};
    };
    WEFT_RETURN_IF_ERROR(Expect(source.tensor(), shape(file_rows)));
    source.shape = shape(rows);
    source.section = section;
    return source;
  }

  // Per head, q and behind it the gate.
  Result<WeightSource> QueryPart(const LayerParam& at, std::string_view suffix,
                                 int64_t part) const {
    const int64_t dim = config_.head_dim, width = config_.heads * dim;
    return Part(fmt::format("{}self_attn.q_proj{}", at.prefix, suffix), 2 * width,
                suffix == ".bias" ? 0 : config_.hidden_size, width,
                {.begin = part * dim, .count = dim, .period = 2 * dim});
  }

  // ---- Linear attention ----

  // The converter to GGUF puts the value heads of all key heads side by side, so that those of one
  // key head lie apart.
  bool Tiles() const {
    const io::LinearAttentionConfig& linear = config_.linear;
    return gguf_ && config_.family == "qwen3_5" && linear.key_heads > 1 &&
           linear.value_heads > linear.key_heads;
  }
  HeadOrder ValueHeads(std::string_view prefix, int64_t width) const {
    const io::LinearAttentionConfig& linear = config_.linear;
    if (!Tiles() || StaysTiled(prefix)) return {};
    return {.kind = HeadOrder::Kind::kTiled,
            .width = width,
            .groups = linear.key_heads,
            .per_group = linear.value_heads / linear.key_heads};
  }

  Result<WeightSource> LinearAttention(const LayerParam& at) const {
    const io::LinearAttentionConfig& linear = config_.linear;
    const std::string param = fmt::format("{}{}", at.prefix, at.rest);
    const std::string_view name = at.rest.substr(std::string_view("linear_attn.").size());
    if (linear.key_heads == 0) return Missing(param);
    if (name == "A_log" || name == "dt_bias") {
      WEFT_ASSIGN_OR_RETURN(WeightSource source,
                            Part(param, linear.value_heads, 0, linear.value_heads, {}));
      source.order = ValueHeads(at.prefix, 1);
      if (name == "A_log" && !gguf_) source.change = ValueChange::kMinusExp;
      return source;
    }
    if (name == "out_proj.weight") return OutProjection(at, param);
    if (name.starts_with("conv1d_")) return Convolution(at, name);
    if (name.starts_with("in_proj_")) return InProjection(at, name.substr(8));
    return Whole(param);
  }

  Result<WeightSource> OutProjection(const LayerParam& at, const std::string& param) const {
    const io::LinearAttentionConfig& linear = config_.linear;
    WEFT_ASSIGN_OR_RETURN(WeightSource source, Part(param, config_.hidden_size,
                                                    linear.value_width(), config_.hidden_size, {}));
    source.columns = ValueHeads(at.prefix, linear.value_dim);
    return source;
  }

  // Channels q | k | v; an empty section for another name.
  Section Channels(std::string_view letter) const {
    const io::LinearAttentionConfig& linear = config_.linear;
    const int64_t keys = linear.key_width(), period = linear.channels();
    if (letter == "q") return {.begin = 0, .count = keys, .period = period};
    if (letter == "k") return {.begin = keys, .count = keys, .period = period};
    if (letter == "v") return {.begin = 2 * keys, .count = linear.value_width(), .period = period};
    return {};
  }

  Result<WeightSource> Convolution(const LayerParam& at, std::string_view name) const {
    const io::LinearAttentionConfig& linear = config_.linear;
    constexpr std::string_view kStem = "conv1d_", kSuffix = ".weight";
    const bool named = name.size() == kStem.size() + 1 + kSuffix.size() && name.ends_with(kSuffix);
    const std::string_view letter = name.substr(kStem.size(), named ? 1 : 0);
    const Section section = Channels(letter);
    if (section.count == 0) return Missing(fmt::format("{}{}", at.prefix, at.rest));
    WEFT_ASSIGN_OR_RETURN(WeightSource source,
                          Whole(fmt::format("{}linear_attn.conv1d.weight", at.prefix)));
    // PyTorch's depthwise convolution has one input a channel, in the middle.
    std::vector<int64_t> expected{linear.channels(), linear.conv_kernel};
    if (source.shape != expected) expected.insert(expected.begin() + 1, 1);
    WEFT_RETURN_IF_ERROR(Expect(source.tensor(), expected));
    source.shape = {section.count, linear.conv_kernel};
    source.section = section;
    if (letter == "v") source.order = ValueHeads(at.prefix, linear.value_dim);
    return source;
  }

  // `name`: "q.weight" to "a.weight". The file has q | k | v in one and z, b and a each alone, or
  // per key head q | k | v | z in one and b | a in another.
  Result<WeightSource> InProjection(const LayerParam& at, std::string_view name) const {
    const io::LinearAttentionConfig& linear = config_.linear;
    const std::string stem = fmt::format("{}linear_attn.in_proj_", at.prefix);
    if (name.size() != std::string_view("q.weight").size() || !name.ends_with(".weight"))
      return Missing(stem + std::string(name));
    const char letter = name[0];
    const int64_t ratio = linear.value_heads / linear.key_heads, dim = linear.key_dim,
                  values = ratio * linear.value_dim;
    const bool of_qkv = letter == 'q' || letter == 'k' || letter == 'v',
               of_ba = letter == 'b' || letter == 'a';
    if (!of_qkv && !of_ba && letter != 'z') return Missing(stem + std::string(name));

    const int64_t rows = of_ba                            ? linear.value_heads
                         : letter == 'q' || letter == 'k' ? linear.key_width()
                                                          : linear.value_width();
    const std::string split = stem + (of_qkv ? "qkv.weight" : std::string(name));
    const std::string fused = stem + (of_ba ? "ba.weight" : "qkvz.weight");
    if (Named(split) == nullptr && Named(fused) != nullptr) {
      const Section section = letter == 'q'   ? Section{0, dim, 0}
                              : letter == 'k' ? Section{dim, dim, 0}
                              : letter == 'v' ? Section{2 * dim, values, 0}
                              : letter == 'z' ? Section{2 * dim + values, values, 0}
                              : letter == 'b' ? Section{0, ratio, 0}
                                              : Section{ratio, ratio, 0};
      const int64_t period = of_ba ? 2 * ratio : 2 * (dim + values);
      return Part(fused, linear.key_heads * period, config_.hidden_size, rows,
                  {section.begin, section.count, period});
    }
    const Section section = of_qkv ? Channels(name.substr(0, 1)) : Section{};
    WEFT_ASSIGN_OR_RETURN(WeightSource source, Part(split, of_qkv ? linear.channels() : rows,
                                                    config_.hidden_size, rows, section));
    if (letter != 'q' && letter != 'k')
      source.order = ValueHeads(at.prefix, of_ba ? 1 : linear.value_dim);
    return source;
  }

  // ---- Experts ----

  // One tensor of all experts, gate and up apart or one behind the other, or one tensor an expert.
  Result<WeightSource> Experts(const LayerParam& at) const {
    const std::string_view name = at.rest.substr(std::string_view("mlp.experts.").size());
    const bool gate = name == "gate_proj.weight", up = name == "up_proj.weight",
               down = name == "down_proj.weight";
    const std::string stem = fmt::format("{}mlp.experts.", at.prefix),
                      param = fmt::format("{}{}", at.prefix, at.rest);
    if (!gate && !up && !down) return Missing(param);
    const int64_t width = config_.moe_intermediate_size, hidden = config_.hidden_size;
    const int64_t n = down ? hidden : width, k = down ? width : hidden;
    WeightSource source;
    source.shape = {config_.experts, n, k};
    for (const std::string& whole :
         {param, stem + (down ? "down_proj" : "gate_up_proj"), stem + "gate_up_proj.weight"}) {
      const io::Tensor* tensor = Named(whole);
      if (tensor == nullptr || (down && whole.ends_with("gate_up_proj.weight"))) continue;
      const bool fused = whole.find("gate_up_proj") != std::string::npos;
      source.tensors = {tensor};
      source.expert_rows = fused ? 2 * n : n;
      WEFT_RETURN_IF_ERROR(Expect(*tensor, {config_.experts, source.expert_rows, k}));
      if (fused) source.section = {.begin = up ? n : 0, .count = n, .period = 2 * n};
      return source;
    }
    if (gguf_) return Missing(param);
    for (int64_t e = 0; e < config_.experts; ++e) {
      const std::string one = fmt::format("{}{}.{}", stem, e, name);
      const io::Tensor* tensor = Named(one);
      if (tensor == nullptr) return Missing(one);
      WEFT_RETURN_IF_ERROR(Expect(*tensor, {n, k}));
      source.tensors.push_back(tensor);
      if (tensor->dtype != source.dtype()) {
        return Status::Unsupported(
            "{}: tensor '{}' is {}, but that of expert 0 is {}; they must be alike",
            checkpoint_.path(), tensor->name, NameOf(tensor->dtype), NameOf(source.dtype()));
      }
    }
    return source;
  }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const bool gguf_;
};

// What a file may hold and a graph leave alone, though it is not the same as if it were not there.
enum class Unread { kNo, kVision, kDraft };

Unread MayStayUnread(const io::Checkpoint& checkpoint, std::string_view name) {
  const io::ModelConfig& config = checkpoint.config();
  if (config.vision && (name.starts_with("model.visual.") || name.starts_with("visual.")))
    return Unread::kVision;
  if (config.mtp_layers == 0) return Unread::kNo;
  if (name.starts_with(kDraft) || name.starts_with("language_model.mtp.")) return Unread::kDraft;
  if (checkpoint.format() != io::Format::kGguf) return Unread::kNo;
  for (int64_t i = 0; i < config.mtp_layers; ++i) {
    if (name.starts_with(fmt::format("blk.{}.", config.layers + i))) return Unread::kDraft;
  }
  return Unread::kNo;
}

}  // namespace

Result<WeightSource> FindWeight(const io::Checkpoint& checkpoint, std::string_view param) {
  return Finder(checkpoint).Find(param);
}

bool HasTiledHeads(const io::Checkpoint& checkpoint, std::string_view prefix) {
  return Finder(checkpoint).StaysTiled(prefix);
}

bool HasDraftHead(const io::Checkpoint& checkpoint) {
  return checkpoint.config().mtp_layers > 0 && FindWeight(checkpoint, "mtp.fc.weight").ok();
}

Status CheckAllUsed(const io::Checkpoint& checkpoint, std::span<const graph::Graph* const> graphs,
                    std::vector<std::string>* notes) {
  std::unordered_set<const io::Tensor*> used;
  bool drafts = false;
  for (const graph::Graph* graph : graphs) {
    for (const graph::Value& value : graph->values) {
      if (value.kind != graph::ValueKind::kParam) continue;
      WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(checkpoint, value.name));
      used.insert(source.tensors.begin(), source.tensors.end());
      drafts = drafts || value.name.starts_with(kDraft);
    }
  }
  const io::ModelConfig& config = checkpoint.config();
  int64_t vision = 0, draft = 0;
  for (const io::Tensor& tensor : checkpoint.tensors()) {
    const std::string_view name = tensor.name;
    const bool needless = name.ends_with(".rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
                          (config.tie_word_embeddings && name == "lm_head.weight");
    if (needless || used.count(&tensor) > 0) continue;
    const Unread unread = MayStayUnread(checkpoint, name);
    if (unread == Unread::kVision) {
      ++vision;
    } else if (unread == Unread::kDraft && !drafts) {
      ++draft;
    } else {
      return Status::Invalid(
          "{}: tensor '{}' [{}] is no part of a {} model with this configuration",
          checkpoint.path(), name, fmt::join(tensor.shape, ", "), config.family);
    }
  }
  if (notes != nullptr && vision > 0) {
    notes->push_back(
        fmt::format("{}: {} tensors of an image encoder are not read", checkpoint.path(), vision));
  }
  if (notes != nullptr && draft > 0) {
    notes->push_back(
        fmt::format("{}: {} tensors of a draft head (mtp) are not read", checkpoint.path(), draft));
  }
  return Status::Ok();
}

Result<std::vector<double>> ScaleRopeFrequencies(const io::Checkpoint& checkpoint,
                                                 std::vector<double> f) {
  const io::RopeConfig& rope = checkpoint.config().rope;
  switch (rope.scaling) {
    case io::RopeScaling::kNone: break;
    case io::RopeScaling::kLinear:
      for (double& x : f) x /= rope.factor;
      break;
    case io::RopeScaling::kLlama3: {
      // Source: Llama 3.1's rope scaling; wavelengths beyond the trained context are stretched.
      const double original = static_cast<double>(rope.original_max_position);
      for (double& x : f) {
        const double wavelength = 2 * std::numbers::pi / x;
        if (wavelength < original / rope.high_freq_factor) continue;
        if (wavelength > original / rope.low_freq_factor) {
          x /= rope.factor;
          continue;
        }
        const double s = (original / wavelength - rope.low_freq_factor) /
                         (rope.high_freq_factor - rope.low_freq_factor);
        x = (1 - s) * x / rope.factor + s * x;
      }
      break;
    }
    case io::RopeScaling::kFactorsTensor: {
      const io::Tensor* factors = checkpoint.Find("rope_freqs.weight");
      if (factors == nullptr || factors->dtype != DType::kF32 || factors->shape.size() != 1 ||
          factors->shape[0] != static_cast<int64_t>(f.size())) {
        return Status::Invalid("{}: 'rope_freqs.weight' must be float32 [{}]", checkpoint.path(),
                               f.size());
      }
      for (size_t i = 0; i < f.size(); ++i) {
        float factor;
        std::memcpy(&factor, factors->data + i * sizeof(float), sizeof factor);
        if (!(factor > 0))
          return Status::Invalid("{}: 'rope_freqs.weight'[{}] = {} must be > 0", checkpoint.path(),
                                 i, factor);
        f[i] /= static_cast<double>(factor);
      }
      break;
    }
  }
  return f;
}

}  // namespace weft::models
