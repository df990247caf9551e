#include "io/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/json_fields.h"
#include "io/printable.h"

namespace weft::io {
namespace {

constexpr std::array<std::string_view, 3> kFamilies{"llama", "qwen2", "qwen3"};

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

Status ReadFamily(const Gguf& gguf, ModelConfig* c) {
  const GgufValue* value = gguf.Find("general.architecture");
  if (value == nullptr)
    return Status::Invalid("{}: 'general.architecture' is missing", gguf.name());
  const std::optional<std::string_view> name = value->AsString();
  if (!name) return BadField(gguf.name(), "general.architecture", "a string", Show(*value));
  c->architecture = *name;
  if (std::find(kFamilies.begin(), kFamilies.end(), *name) == kFamilies.end()) {
    return Status::Unsupported(
        "{}: 'general.architecture' is '{}', which is not supported; llama, qwen2 and qwen3 are",
        gguf.name(), Printable(*name));
  }
  c->family = *name;
  return Status::Ok();
}

Status ReadSizes(const Keys& keys, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_ASSIGN_OR_RETURN(c->hidden_size, keys.Int("embedding_length", {1, Limits::kHiddenMax}));
  WEFT_ASSIGN_OR_RETURN(c->layers, keys.Int("block_count", {1, Limits::kLayersMax}));
  WEFT_ASSIGN_OR_RETURN(c->intermediate_size,
                        keys.Int("feed_forward_length", {1, Limits::kIntermediateMax}));
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

// Keys that change the computation in a way that these families do not have.
Status RefuseTheRest(const Keys& keys, ModelConfig* c) {
  for (const std::string_view key :
       {"expert_count", "attention.scale", "logit_scale", "residual_scale", "embedding_scale",
        "attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping",
        "nextn_predict_layers"}) {
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
  WEFT_RETURN_IF_ERROR(ReadFamily(gguf, &config));
  const Keys keys(gguf, config.architecture);
  WEFT_RETURN_IF_ERROR(ReadSizes(keys, &config));
  WEFT_RETURN_IF_ERROR(
      ReadRope(keys, FindTensor(tensors, "rope_freqs.weight") != nullptr, &config));
  WEFT_RETURN_IF_ERROR(RefuseTheRest(keys, &config));
  WEFT_RETURN_IF_ERROR(
      ReadVocabulary(gguf, keys, FindTensor(tensors, "token_embd.weight"), &config));
  WEFT_RETURN_IF_ERROR(ReadSpecialIds(gguf, &config));
  config.tie_word_embeddings = FindTensor(tensors, "output.weight") == nullptr;
  config.attention_bias = FindTensor(tensors, "blk.0.attn_q.bias") != nullptr;
  config.attention_output_bias = FindTensor(tensors, "blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = FindTensor(tensors, "blk.0.ffn_up.bias") != nullptr;

  const std::string heads = keys.Name("attention.head_count");
  const std::string kv_heads = keys.Name("attention.head_count_kv");
  const std::string head_dim = keys.Name("attention.key_length");
  const std::string rope_dims = keys.Name("rope.dimension_count");
  const std::string hidden = keys.Name("embedding_length");
  WEFT_RETURN_IF_ERROR(CheckConfig(config, {.hidden_size = hidden,
                                            .heads = heads,
                                            .kv_heads = kv_heads,
                                            .head_dim = head_dim,
                                            .rope_dims = rope_dims,
                                            .bos_id = "tokenizer.ggml.bos_token_id",
                                            .eos_ids = "tokenizer.ggml.eos_token_id"}));
  return config;
}

}  // namespace weft::io
