// Names: params are called as Hugging Face checkpoints call them; GGUF has its own names and, for
// the llama architecture, its own order of the rows of q and k.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <unordered_set>
#include <utility>

#include "base/bf16.h"
#include "models/model.h"

namespace weft::models {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kLayerNames{{
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
}};

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"; "" if there is no such name.
std::string GgufName(std::string_view param) {
  if (param == "model.embed_tokens.weight") return "token_embd.weight";
  if (param == "model.norm.weight") return "output_norm.weight";
  if (param == "lm_head.weight") return "output.weight";
  constexpr std::string_view kPrefix = "model.layers.";
  if (!param.starts_with(kPrefix)) return "";
  param.remove_prefix(kPrefix.size());
  const size_t dot = param.find('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view layer = param.substr(0, dot), rest = param.substr(dot + 1);
  for (const auto& [ours, theirs] : kLayerNames) {
    if (!rest.starts_with(ours)) continue;
    const std::string_view suffix = rest.substr(ours.size());
    if (suffix == ".weight" || suffix == ".bias") return fmt::format("blk.{}.{}{}", layer, theirs, suffix);
  }
  return "";
}

}  // namespace

Result<WeightSource> FindWeight(const io::Checkpoint& checkpoint, std::string_view param) {
  WeightSource source;
  const bool gguf = checkpoint.format() == io::Format::kGguf;
  const std::string name = gguf ? GgufName(param) : std::string(param);
  source.tensor = name.empty() ? nullptr : checkpoint.Find(name);
  if (source.tensor == nullptr) {
    return Status::Invalid("{}: tensor '{}' is missing", checkpoint.path(), name.empty() ? std::string(param) : name);
  }
  const bool rotated = param.find("q_proj") != std::string_view::npos ||
                       param.find("k_proj") != std::string_view::npos;
  if (gguf && rotated && checkpoint.config().family == "llama") {
    source.order = RowOrder::kRopePairs;
    source.head_dim = checkpoint.config().head_dim;
  }
  return source;
}

Status CheckAllUsed(const io::Checkpoint& checkpoint, std::span<const graph::Graph* const> graphs) {
  std::unordered_set<const io::Tensor*> used;
  for (const graph::Graph* graph : graphs) {
    for (const graph::Value& value : graph->values) {
      if (value.kind != graph::ValueKind::kParam) continue;
      WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(checkpoint, value.name));
      used.insert(source.tensor);
    }
  }
  const io::ModelConfig& config = checkpoint.config();
  for (const io::Tensor& tensor : checkpoint.tensors()) {
    const std::string_view name = tensor.name;
    const bool needless = name.ends_with(".rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
                          (config.tie_word_embeddings && name == "lm_head.weight");
    if (needless || used.count(&tensor) > 0) continue;
    return Status::Invalid("{}: tensor '{}' [{}] is no part of a {} model with this configuration", checkpoint.path(),
                           name, fmt::join(tensor.shape, ", "), config.family);
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
        return Status::Invalid("{}: 'rope_freqs.weight' must be float32 [{}]", checkpoint.path(), f.size());
      }
      for (size_t i = 0; i < f.size(); ++i) {
        float factor;
        std::memcpy(&factor, factors->data + i * sizeof(float), sizeof factor);
        if (!(factor > 0)) return Status::Invalid("{}: 'rope_freqs.weight'[{}] = {} must be > 0", checkpoint.path(), i, factor);
        f[i] /= static_cast<double>(factor);
      }
      break;
    }
  }
  return f;
}

}  // namespace weft::models
