#include "io/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/json_fields.h"
#include "io/printable.h"

namespace weft::io {
namespace {

struct GgufFamily {
  std::string_view architecture;
  std::string_view family;
  bool experts = false;
  bool shared_expert = false;
  bool hybrid = false;  // layers of the gated delta rule, an output gate, a draft head
};

constexpr std::array<GgufFamily, 7> kGgufFamilies{{
    {"llama", "llama"},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {.architecture = "qwen3moe", .family = "qwen3_moe", .experts = true},
    {.architecture = "qwen3next",
     .family = "qwen3_next",
     .experts = true,
     .shared_expert = true,
     .hybrid = true},
    {.architecture = "qwen35", .family = "qwen3_5", .hybrid = true},
    {.architecture = "qwen35moe",
     .family = "qwen3_5",
     .experts = true,
     .shared_expert = true,
     .hybrid = true},
}};

constexpr int64_t kSoftmaxGating = 1;

std::string Show(const GgufValue& value) {
  if (value.AsArray() != nullptr) return fmt::format("{} [{}]", value.type_name(), value.size());
  if (const auto i = value.AsInt()) return fmt::format("{}", *i);
  if (const auto d = value.AsDouble()) return fmt::format("{}", *d);
  if (const auto b = value.AsBool()) return *b ? "true" : "false";
  if (const auto s = value.AsString()) return fmt::format("'{}'", Printable(*s));
  return value.type_name();
}

// Metadata by key, with the architecture's prefix put in front where one is asked for.
class Keys {
 public:
  Keys(const Gguf& gguf, std::string prefix) : gguf_(gguf), prefix_(std::move(prefix)) {}

  std::string Name(std::string_view key) const { return fmt::format("{}.{}", prefix_, key); }
  const GgufValue* Find(std::string_view key) const { return gguf_.Find(Name(key)); }

  Status Bad(const std::string& name, std::string_view expected, const GgufValue& found) const {
    return BadField(gguf_.name(), name, expected, Show(found));
  }

  // A number, or an array (one number per layer) whose numbers are all the same.
  Result<std::optional<int64_t>> IntIfAny(std::string_view key, IntRange range) const {
    const GgufValue* value = Find(key);
    if (value == nullptr) return std::optional<int64_t>();
    std::optional<int64_t> number = value->AsInt();
    if (const auto list = value->AsInts(); list && !list->empty()) {
      if (std::count(list->begin(), list->end(), list->front()) !=
          static_cast<int64_t>(list->size())) {
        return Status::Unsupported("{}: '{}' differs between layers, which is not supported",
                                   gguf_.name(), Name(key));
      }
      number = list->front();
    }
    if (!number || *number < range.min || *number > range.max) {
      const std::string found = number ? fmt::format("{}", *number) : Show(*value);
      return BadField(gguf_.name(), Name(key),
                      fmt::format("an integer from {} to {}", range.min, range.max), found);
    }
    return number;
  }

  Result<int64_t> Int(std::string_view key, IntRange range) const {
    WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> value, IntIfAny(key, range));
    if (!value) return Missing(key);
    return *value;
  }

  Result<std::optional<double>> RealIfAny(std::string_view key, RealRange range) const {
    const GgufValue* value = Find(key);
    if (value == nullptr) return std::optional<double>();
    const std::optional<double> number = value->AsDouble();
    if (!number || !(*number > range.above && *number <= range.max)) {
      return Bad(Name(key), fmt::format("a number above {} and up to {}", range.above, range.max),
                 *value);
    }
    return number;
  }

  Status Missing(std::string_view key) const {
    return Status::Invalid("{}: '{}' is missing", gguf_.name(), Name(key));
  }

 private:
  const Gguf& gguf_;
  std::string prefix_;
};

const Tensor* FindTensor(std::span<const Tensor> tensors, std::string_view name) {
  for (const Tensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Result<const GgufFamily*> ReadFamily(const Gguf& gguf, ModelConfig* c) {
  const GgufValue* value = gguf.Find("general.architecture");
  if (value == nullptr)
    return Status::Invalid("{}: 'general.architecture' is missing", gguf.name());
  const std::optional<std::string_view> name = value->AsString();
  if (!name) return BadField(gguf.name(), "general.architecture", "a string", Show(*value));
  c->architecture = *name;
  std::string known;
  for (const GgufFamily& family : kGgufFamilies) {
    if (family.architecture == *name) {
      c->family = family.family;
      return &family;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.architecture);
  }
  return Status::Unsupported("{}: 'general.architecture' is '{}', which is not supported; {} are",
                             gguf.name(), Printable(*name), known);
}

// The blocks of the file are the layers and, behind them, those of the draft head.
Status ReadLayers(const Keys& keys, const GgufFamily& family, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const int64_t blocks,
                        keys.Int("block_count", {1, ConfigLimits::kLayersMax}));
  c->layers = blocks;
  if (!family.hybrid) return Status::Ok();
  const int64_t most = std::min(blocks - 1, ConfigLimits::kMtpLayersMax);
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> mtp,
                        keys.IntIfAny("nextn_predict_layers", {0, most}));
  c->mtp_layers = mtp.value_or(0);
  c->layers -= c->mtp_layers;
  return Status::Ok();
}

Status ReadSizes(const Keys& keys, const GgufFamily& family, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_ASSIGN_OR_RETURN(c->hidden_size, keys.Int("embedding_length", {1, Limits::kHiddenMax}));
  WEFT_RETURN_IF_ERROR(ReadLayers(keys, family, c));
  WEFT_ASSIGN_OR_RETURN(
      const std::optional<int64_t> width,
      keys.IntIfAny("feed_forward_length", {family.experts ? 0 : 1, Limits::kIntermediateMax}));
  if (!width && !family.experts) return keys.Missing("feed_forward_length");
  c->intermediate_size = width.value_or(0);
  WEFT_ASSIGN_OR_RETURN(c->max_position, keys.Int("context_length", {1, Limits::kPositionMax}));
  WEFT_ASSIGN_OR_RETURN(c->heads, keys.Int("attention.head_count", {1, Limits::kHeadsMax}));
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads,
                        keys.IntIfAny("attention.head_count_kv", {1, Limits::kHeadsMax}));
  c->kv_heads = kv_heads.value_or(c->heads);
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> key_length,
                        keys.IntIfAny("attention.key_length", {1, Limits::kHeadDimMax}));
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> value_length,
                        keys.IntIfAny("attention.value_length", {1, Limits::kHeadDimMax}));
  if (!key_length && c->hidden_size % c->heads != 0) {
    return BadField(
        c->source, keys.Name("embedding_length"),
        fmt::format("a multiple of '{}' = {} since there is no '{}'",
                    keys.Name("attention.head_count"), c->heads, keys.Name("attention.key_length")),
        fmt::format("{}", c->hidden_size));
  }
  c->head_dim = key_length.value_or(c->hidden_size / c->heads);
  if (value_length && *value_length != c->head_dim) {
    return Status::Unsupported("{}: '{}' is {}, but keys have {}; they must be equal", c->source,
                               keys.Name("attention.value_length"), *value_length, c->head_dim);
  }
  WEFT_ASSIGN_OR_RETURN(
      const std::optional<double> eps,
      keys.RealIfAny("attention.layer_norm_rms_epsilon", {std::numeric_limits<float>::min(), 0.1}));
  if (!eps) return keys.Missing("attention.layer_norm_rms_epsilon");
  c->rms_norm_eps = *eps;
  return Status::Ok();
}

Status ReadRope(const Keys& keys, bool has_factors, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<double> theta,
                        keys.RealIfAny("rope.freq_base", {0, 1e12}));
  if (!theta) {
    c->notes.push_back(
        fmt::format("{}: no '{}'; 10000 is used", c->source, keys.Name("rope.freq_base")));
  }
  c->rope.theta = theta.value_or(10000.0);
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> dims,
                        keys.IntIfAny("rope.dimension_count", {2, ConfigLimits::kHeadDimMax}));
  c->rope.dims = dims.value_or(c->head_dim);
  if (has_factors) c->rope.scaling = RopeScaling::kFactorsTensor;

  WEFT_ASSIGN_OR_RETURN(const std::optional<double> old_factor,
                        keys.RealIfAny("rope.scale_linear", {0, 1e6}));
  WEFT_ASSIGN_OR_RETURN(const std::optional<double> factor,
                        keys.RealIfAny("rope.scaling.factor", {0, 1e6}));
  std::string type = old_factor && *old_factor != 1 ? "linear" : "none";
  if (const GgufValue* value = keys.Find("rope.scaling.type")) {
    if (!value->AsString()) return keys.Bad(keys.Name("rope.scaling.type"), "a string", *value);
    type = *value->AsString();
  }
  if (type == "none") return Status::Ok();
  if (type != "linear" || has_factors) {
    return Status::Unsupported("{}: '{}' is '{}'{}, which is not supported", c->source,
                               keys.Name("rope.scaling.type"), Printable(type),
                               has_factors ? " beside rope_freqs.weight" : "");
  }
  if (!factor && !old_factor) return keys.Missing("rope.scaling.factor");
  c->rope.scaling = RopeScaling::kLinear;
  c->rope.factor = factor ? *factor : *old_factor;
  return Status::Ok();
}

// Three counts and a zero: which of the positions of an image turns which frequency. Those of text
// are the same, so that only the sum matters.
Status CheckSections(const Keys& keys, const ModelConfig& c) {
  const GgufValue* value = keys.Find("rope.dimension_sections");
  if (value == nullptr) return Status::Ok();
  const std::optional<std::vector<int64_t>> counts = value->AsInts();
  int64_t sum = 0;
  bool good = counts && counts->size() <= 4;
  for (size_t i = 0; good && i < counts->size(); ++i) {
    good = (*counts)[i] >= 0 && (*counts)[i] <= c.rope.dims / 2;
    sum += (*counts)[i];
  }
  if (good && sum == c.rope.dims / 2) return Status::Ok();
  return keys.Bad(keys.Name("rope.dimension_sections"),
                  fmt::format("up to four counts with the sum {}, half of '{}'", c.rope.dims / 2,
                              keys.Name("rope.dimension_count")),
                  *value);
}

// A list of one bool a block, or every n-th layer. The draft head's blocks are full attention.
Status ReadLayerKinds(const Keys& keys, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> interval,
                        keys.IntIfAny("full_attention_interval", {1, ConfigLimits::kLayersMax}));
  const int64_t every = interval.value_or(kHybridFullInterval);
  std::vector<bool> recurrent(static_cast<size_t>(c->layers + c->mtp_layers));
  for (int64_t i = 0; i < c->layers; ++i) recurrent[static_cast<size_t>(i)] = (i + 1) % every != 0;
  if (const GgufValue* value = keys.Find("attention.recurrent_layers")) {
    const GgufArray* array = value->AsArray();
    const auto* list = array == nullptr ? nullptr : std::get_if<std::vector<bool>>(array);
    const bool good = list != nullptr && list->size() == recurrent.size() &&
                      std::find(list->begin() + c->layers, list->end(), true) == list->end();
    if (!good) {
      return keys.Bad(keys.Name("attention.recurrent_layers"),
                      fmt::format("an array of '{}' = {} bools, false for the last {}",
                                  keys.Name("block_count"), recurrent.size(), c->mtp_layers),
                      *value);
    }
    recurrent = *list;
  }
  for (int64_t i = 0; i < c->layers; ++i) {
    c->layer_kinds.push_back(recurrent[static_cast<size_t>(i)] ? LayerKind::kLinearAttention
                                                               : LayerKind::kFullAttention);
  }
  return Status::Ok();
}

Status ReadHybrid(const Keys& keys, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_RETURN_IF_ERROR(ReadLayerKinds(keys, c));
  c->attn_output_gate = true;
  LinearAttentionConfig& linear = c->linear;
  if (std::count(c->layer_kinds.begin(), c->layer_kinds.end(), LayerKind::kLinearAttention) == 0) {
    c->layer_kinds.clear();
    return Status::Ok();
  }
  WEFT_ASSIGN_OR_RETURN(linear.key_heads, keys.Int("ssm.group_count", {1, Limits::kHeadsMax}));
  WEFT_ASSIGN_OR_RETURN(linear.value_heads, keys.Int("ssm.time_step_rank", {1, Limits::kHeadsMax}));
  WEFT_ASSIGN_OR_RETURN(linear.key_dim, keys.Int("ssm.state_size", {1, Limits::kHeadDimMax}));
  WEFT_ASSIGN_OR_RETURN(linear.conv_kernel,
                        keys.Int("ssm.conv_kernel", {1, Limits::kConvKernelMax}));
  WEFT_ASSIGN_OR_RETURN(const int64_t inner, keys.Int("ssm.inner_size", {1, Limits::kHiddenMax}));
  if (inner % linear.value_heads != 0) {
    return BadField(
        c->source, keys.Name("ssm.inner_size"),
        fmt::format("a multiple of '{}' = {}", keys.Name("ssm.time_step_rank"), linear.value_heads),
        fmt::format("{}", inner));
  }
  linear.value_dim = inner / linear.value_heads;
  return Status::Ok();
}

Status ReadExperts(const Keys& keys, const GgufFamily& family, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_ASSIGN_OR_RETURN(c->experts, keys.Int("expert_count", {1, Limits::kExpertsMax}));
  WEFT_ASSIGN_OR_RETURN(c->experts_per_token,
                        keys.Int("expert_used_count", {1, Limits::kExpertsMax}));
  WEFT_ASSIGN_OR_RETURN(c->moe_intermediate_size,
                        keys.Int("expert_feed_forward_length", {1, Limits::kIntermediateMax}));
  if (family.shared_expert) {
    WEFT_ASSIGN_OR_RETURN(
        c->shared_expert_intermediate_size,
        keys.Int("expert_shared_feed_forward_length", {1, Limits::kIntermediateMax}));
  }
  c->norm_topk_prob = true;
  if (const GgufValue* value = keys.Find("expert_weights_norm")) {
    if (!value->AsBool()) return keys.Bad(keys.Name("expert_weights_norm"), "a bool", *value);
    c->norm_topk_prob = *value->AsBool();
  }
  struct Only {
    std::string_view key;
    double value;  // the one that these families compute with; 0 says that there is none
  };
  for (const Only& only :
       {Only{"expert_gating_func", kSoftmaxGating}, Only{"expert_weights_scale", 1},
        Only{"leading_dense_block_count", 0}, Only{"expert_group_count", 1}}) {
    const GgufValue* value = keys.Find(only.key);
    if (value == nullptr || value->AsDouble() == 0.0 || value->AsDouble() == only.value) continue;
    return Status::Unsupported("{}: '{}' = {} is not supported", c->source, keys.Name(only.key),
                               Show(*value));
  }
  return Status::Ok();
}

// Keys that change the computation in a way that these families do not have.
Status RefuseTheRest(const Keys& keys, const GgufFamily& family, ModelConfig* c) {
  for (const std::string_view key :
       {"expert_count", "attention.scale", "logit_scale", "residual_scale", "embedding_scale",
        "attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping",
        "nextn_predict_layers"}) {
    if ((family.experts && key == "expert_count") ||
        (family.hybrid && key == "nextn_predict_layers"))
      continue;
    const GgufValue* value = keys.Find(key);
    if (value == nullptr || value->AsDouble() == 0.0) continue;
    return Status::Unsupported("{}: '{}' = {} is not supported", c->source, keys.Name(key),
                               Show(*value));
  }
  WEFT_ASSIGN_OR_RETURN(
      const std::optional<int64_t> window,
      keys.IntIfAny("attention.sliding_window", {0, std::numeric_limits<int64_t>::max()}));
  if (window && *window != 0 && *window < c->max_position) {
    return Status::Unsupported("{}: '{}' is {}, which is not supported", c->source,
                               keys.Name("attention.sliding_window"), *window);
  }
  return Status::Ok();
}

// The embedding's rows are the truth; what the keys say must agree with it.
Status ReadVocabulary(const Gguf& gguf, const Keys& keys, const Tensor* embedding, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> by_key,
                        keys.IntIfAny("vocab_size", {1, ConfigLimits::kVocabMax}));
  const GgufValue* tokens = gguf.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->AsStrings() == nullptr) {
    return BadField(c->source, "tokenizer.ggml.tokens", "an array of strings", Show(*tokens));
  }
  const bool has_tokens = tokens != nullptr && tokens->size() > 0;
  if (!by_key && !has_tokens) return keys.Missing("vocab_size");
  c->vocab_size = has_tokens ? static_cast<int64_t>(tokens->size()) : *by_key;
  if (c->vocab_size > ConfigLimits::kVocabMax) {
    return BadField(c->source, "tokenizer.ggml.tokens",
                    fmt::format("at most {} tokens", ConfigLimits::kVocabMax),
                    fmt::format("{}", c->vocab_size));
  }
  if (by_key && *by_key != c->vocab_size) {
    c->notes.push_back(fmt::format("{}: '{}' is {}, but there are {} tokens; the latter counts",
                                   c->source, keys.Name("vocab_size"), *by_key, c->vocab_size));
  }
  if (embedding == nullptr) return Status::Ok();  // a missing tensor is told by who needs it
  if (embedding->shape.size() != 2 || embedding->shape[0] != c->vocab_size ||
      embedding->shape[1] != c->hidden_size) {
    return BadField(c->source, "token_embd.weight",
                    fmt::format("of shape [{}, {}] (tokens, '{}')", c->vocab_size, c->hidden_size,
                                keys.Name("embedding_length")),
                    fmt::format("[{}]", fmt::join(embedding->shape, ", ")));
  }
  return Status::Ok();
}

Status ReadSpecialIds(const Gguf& gguf, ModelConfig* c) {
  const Keys keys(gguf, "tokenizer.ggml");
  const IntRange ids{0, c->vocab_size - 1};
  WEFT_ASSIGN_OR_RETURN(c->bos_id, keys.IntIfAny("bos_token_id", ids));
  for (const std::string_view key : {"eos_token_id", "eot_token_id"}) {
    WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> id, keys.IntIfAny(key, ids));
    if (id && std::find(c->eos_ids.begin(), c->eos_ids.end(), *id) == c->eos_ids.end()) {
      c->eos_ids.push_back(*id);
    }
  }
  const Keys sampling(gguf, "general.sampling");
  WEFT_ASSIGN_OR_RETURN(c->sampling.temperature, sampling.RealIfAny("temp", {-1e-300, 100}));
  WEFT_ASSIGN_OR_RETURN(c->sampling.top_p, sampling.RealIfAny("top_p", {0, 1}));
  WEFT_ASSIGN_OR_RETURN(c->sampling.top_k,
                        sampling.IntIfAny("top_k", {-1, ConfigLimits::kVocabMax}));
  return Status::Ok();
}

}  // namespace

Result<ModelConfig> ParseGgufConfig(const Gguf& gguf, std::span<const Tensor> tensors) {
  ModelConfig config;
  config.source = gguf.name();
  WEFT_ASSIGN_OR_RETURN(const GgufFamily* family, ReadFamily(gguf, &config));
  const Keys keys(gguf, config.architecture);
  WEFT_RETURN_IF_ERROR(ReadSizes(keys, *family, &config));
  WEFT_RETURN_IF_ERROR(
      ReadRope(keys, FindTensor(tensors, "rope_freqs.weight") != nullptr, &config));
  WEFT_RETURN_IF_ERROR(CheckSections(keys, config));
  if (family->hybrid) WEFT_RETURN_IF_ERROR(ReadHybrid(keys, &config));
  if (family->experts) WEFT_RETURN_IF_ERROR(ReadExperts(keys, *family, &config));
  WEFT_RETURN_IF_ERROR(RefuseTheRest(keys, *family, &config));
  WEFT_RETURN_IF_ERROR(
      ReadVocabulary(gguf, keys, FindTensor(tensors, "token_embd.weight"), &config));
  WEFT_RETURN_IF_ERROR(ReadSpecialIds(gguf, &config));
  config.tie_word_embeddings = FindTensor(tensors, "output.weight") == nullptr;
  int64_t full = 0;  // the first layer of full attention
  while (full + 1 < config.layers && config.KindOf(full) != LayerKind::kFullAttention) ++full;
  config.attention_bias = FindTensor(tensors, fmt::format("blk.{}.attn_q.bias", full)) != nullptr;
  config.attention_output_bias =
      FindTensor(tensors, fmt::format("blk.{}.attn_output.bias", full)) != nullptr;
  config.mlp_bias = FindTensor(tensors, "blk.0.ffn_up.bias") != nullptr;

  const std::string heads = keys.Name("attention.head_count");
  const std::string kv_heads = keys.Name("attention.head_count_kv");
  const std::string head_dim = keys.Name("attention.key_length");
  const std::string rope_dims = keys.Name("rope.dimension_count");
  const std::string hidden = keys.Name("embedding_length");
  const std::string width = keys.Name("feed_forward_length");
  const std::string key_heads = keys.Name("ssm.group_count"),
                    value_heads = keys.Name("ssm.time_step_rank");
  const std::string experts = keys.Name("expert_count"), chosen = keys.Name("expert_used_count");
  WEFT_RETURN_IF_ERROR(CheckConfig(config, {.hidden_size = hidden,
                                            .heads = heads,
                                            .kv_heads = kv_heads,
                                            .head_dim = head_dim,
                                            .rope_dims = rope_dims,
                                            .bos_id = "tokenizer.ggml.bos_token_id",
                                            .eos_ids = "tokenizer.ggml.eos_token_id",
                                            .intermediate_size = width,
                                            .key_heads = key_heads,
                                            .value_heads = value_heads,
                                            .experts = experts,
                                            .experts_per_token = chosen}));
  return config;
}

}  // namespace weft::io
