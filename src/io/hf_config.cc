#include "io/hf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/json_fields.h"
#include "io/json_file.h"
#include "io/printable.h"

namespace weft::io {
namespace {

constexpr RealRange kThetaRange{0, 1e12};
constexpr RealRange kEpsRange{0, 0.1};
constexpr RealRange kFactorRange{0, 1e6};

struct Family {
  std::string_view architecture;
  std::string_view family;
  int64_t head_dim;         // when the file has none; 0: hidden_size / heads, if that divides
  bool window_unless_told;  // whether 'sliding_window' acts without 'use_sliding_window'
};

constexpr std::array<Family, 4> kFamilies{{
    {"LlamaForCausalLM", "llama", 0, true},
    {"MistralForCausalLM", "llama", 0, true},
    {"Qwen2ForCausalLM", "qwen2", 0, false},
    {"Qwen3ForCausalLM", "qwen3", 128, false},
}};

constexpr ConfigNames kNames{
    .hidden_size = "hidden_size",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .rope_dims = "partial_rotary_factor * head_dim",
    .bos_id = "bos_token_id",
    .eos_ids = "eos_token_id",
};

Result<const Family*> ReadFamily(const JsonFields& fields, ModelConfig* config) {
  const Json* list = fields.Find("architectures");
  if (list == nullptr) return fields.Missing("architectures");
  if (!list->is_array() || list->as_array().size() != 1 || !list->as_array()[0].is_string()) {
    return fields.Bad("architectures", "an array of one string", *list);
  }
  config->architecture = list->as_array()[0].as_string();
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.architecture == config->architecture) {
      config->family = family.family;
      return &family;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.architecture);
  }
  return Status::Unsupported("{}: 'architectures' is {}, which is not supported; {} are",
                             fields.file(), Printable(config->architecture), known);
}

Status ReadSizes(const JsonFields& fields, const Family& family, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_ASSIGN_OR_RETURN(c->hidden_size, fields.Int("hidden_size", {1, Limits::kHiddenMax}));
  WEFT_ASSIGN_OR_RETURN(c->layers, fields.Int("num_hidden_layers", {1, Limits::kLayersMax}));
  WEFT_ASSIGN_OR_RETURN(c->heads, fields.Int(kNames.heads, {1, Limits::kHeadsMax}));
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads,
                        fields.IntIfAny(kNames.kv_heads, {1, Limits::kHeadsMax}));
  c->kv_heads = kv_heads.value_or(c->heads);
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> head_dim,
                        fields.IntIfAny("head_dim", {1, Limits::kHeadDimMax}));
  if (head_dim) {
    c->head_dim = *head_dim;
  } else if (family.head_dim > 0) {
    c->head_dim = family.head_dim;
  } else if (c->hidden_size % c->heads == 0) {
    c->head_dim = c->hidden_size / c->heads;
  } else {
    return BadField(
        fields.file(), kNames.hidden_size,
        fmt::format("a multiple of '{}' = {} since there is no 'head_dim'", kNames.heads, c->heads),
        fmt::format("{}", c->hidden_size));
  }
  WEFT_ASSIGN_OR_RETURN(c->intermediate_size,
                        fields.Int("intermediate_size", {1, Limits::kIntermediateMax}));
  WEFT_ASSIGN_OR_RETURN(c->vocab_size, fields.Int("vocab_size", {1, Limits::kVocabMax}));
  WEFT_ASSIGN_OR_RETURN(c->max_position,
                        fields.Int("max_position_embeddings", {1, Limits::kPositionMax}));
  WEFT_ASSIGN_OR_RETURN(c->rms_norm_eps, fields.Real("rms_norm_eps", kEpsRange));
  // A denormal float would vanish in kernels that flush denormals.
  if (c->rms_norm_eps_float() < std::numeric_limits<float>::min()) {
    return fields.Bad("rms_norm_eps", "a normal float", *fields.Find("rms_norm_eps"));
  }
  return Status::Ok();
}

Status ReadScaling(const JsonFields& rope, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::string old_type, rope.StringOr("type", "default"));
  WEFT_ASSIGN_OR_RETURN(const std::string type, rope.StringOr("rope_type", old_type));
  if (type == "default") return Status::Ok();
  if (type != "linear" && type != "llama3") {
    return Status::Unsupported(
        "{}: rope type '{}' is not supported; default, linear and llama3 are", rope.file(),
        Printable(type));
  }
  c->rope.scaling = type == "linear" ? RopeScaling::kLinear : RopeScaling::kLlama3;
  WEFT_ASSIGN_OR_RETURN(c->rope.factor, rope.Real("factor", kFactorRange));
  if (c->rope.scaling == RopeScaling::kLinear) return Status::Ok();
  WEFT_ASSIGN_OR_RETURN(c->rope.low_freq_factor, rope.Real("low_freq_factor", kFactorRange));
  WEFT_ASSIGN_OR_RETURN(c->rope.high_freq_factor, rope.Real("high_freq_factor", kFactorRange));
  WEFT_ASSIGN_OR_RETURN(c->rope.original_max_position, rope.Int("original_max_position_embeddings",
                                                                {1, ConfigLimits::kPositionMax}));
  return Status::Ok();
}

// transformers 4 spreads rope over rope_theta, rope_scaling and partial_rotary_factor; 5 gathers
// them in rope_parameters. A file with both must not contradict itself.
Status ReadRope(const JsonFields& fields, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(std::optional<double> theta, fields.RealIfAny("rope_theta", kThetaRange));
  WEFT_ASSIGN_OR_RETURN(std::optional<double> part,
                        fields.RealIfAny("partial_rotary_factor", {0, 1}));
  const Json* parameters = fields.Find("rope_parameters");
  const std::string_view key = parameters != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* object = fields.Find(key);
  if (object != nullptr) {
    if (!object->is_object()) return fields.Bad(key, "an object", *object);
    const JsonFields rope(*object, fmt::format("{}: {}", fields.file(), key));
    WEFT_RETURN_IF_ERROR(ReadScaling(rope, c));
    WEFT_ASSIGN_OR_RETURN(const std::optional<double> inner_theta,
                          rope.RealIfAny("rope_theta", kThetaRange));
    if (theta && inner_theta && *theta != *inner_theta) {
      return rope.Bad("rope_theta", fmt::format("the outer 'rope_theta' = {}", *theta),
                      *rope.Find("rope_theta"));
    }
    if (inner_theta) theta = inner_theta;
    WEFT_ASSIGN_OR_RETURN(const std::optional<double> inner_part,
                          rope.RealIfAny("partial_rotary_factor", {0, 1}));
    if (inner_part) part = inner_part;
  }
  if (!theta) {
    theta = 10000.0;
    c->notes.push_back(fmt::format("{}: no 'rope_theta'; 10000 is used", fields.file()));
  }
  WEFT_ASSIGN_OR_RETURN(const bool interleaved, fields.BoolOr("rope_interleaved", false));
  if (interleaved) {
    return Status::Unsupported("{}: 'rope_interleaved' is true, which is not supported",
                               fields.file());
  }
  c->rope.theta = *theta;
  c->rope.dims = static_cast<int64_t>(static_cast<double>(c->head_dim) * part.value_or(1.0));
  return Status::Ok();
}

Status RefuseWindow(const JsonFields& fields, const Family& family, ModelConfig* c) {
  if (const Json* types = fields.Find("layer_types")) {
    if (!types->is_array() || static_cast<int64_t>(types->as_array().size()) != c->layers) {
      return fields.Bad("layer_types",
                        fmt::format("an array of 'num_hidden_layers' = {} strings", c->layers),
                        *types);
    }
    for (const Json& type : types->as_array()) {
      if (type == Json("full_attention")) continue;
      return Status::Unsupported("{}: 'layer_types' has {}; only full_attention is supported",
                                 fields.file(), Printable(DumpJson(type)));
    }
  }
  WEFT_ASSIGN_OR_RETURN(const bool used,
                        fields.BoolOr("use_sliding_window", family.window_unless_told));
  WEFT_ASSIGN_OR_RETURN(
      const std::optional<int64_t> window,
      fields.IntIfAny("sliding_window", {1, std::numeric_limits<int64_t>::max()}));
  if (!used || !window) return Status::Ok();
  if (*window >= c->max_position) {
    c->notes.push_back(fmt::format("{}: 'sliding_window' {} covers every position; ignored",
                                   fields.file(), *window));
    return Status::Ok();
  }
  return Status::Unsupported("{}: 'sliding_window' is {}, which is not supported", fields.file(),
                             *window);
}

Status RefuseTheRest(const JsonFields& fields, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::string act, fields.StringOr("hidden_act", "silu"));
  if (act != "silu") {
    return Status::Unsupported("{}: 'hidden_act' is '{}'; only silu is supported", fields.file(),
                               Printable(act));
  }
  if (const Json* quantised = fields.Find("quantization_config")) {
    const Json* method = quantised->Find("quant_method");
    return Status::Unsupported(
        "{}: 'quantization_config' ({}) is not supported; use a GGUF file for "
        "quantised weights",
        fields.file(), Printable(DumpJson(method != nullptr ? *method : *quantised)));
  }
  for (const std::string_view key : {"auto_map", "custom_pipelines"}) {
    if (fields.Find(key) == nullptr) continue;
    c->notes.push_back(fmt::format("{}: '{}' names code and is ignored", fields.file(), key));
  }
  return Status::Ok();
}

Status ReadBiases(const JsonFields& fields, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const bool bias, fields.BoolOr("attention_bias", false));
  // Qwen2 has always had a bias on q, k and v, never on o, and no key for it.
  c->attention_bias = bias || c->family == "qwen2";
  c->attention_output_bias = bias && c->family != "qwen2";
  WEFT_ASSIGN_OR_RETURN(c->mlp_bias, fields.BoolOr("mlp_bias", false));
  return Status::Ok();
}

// One id or a list; those that are not there yet are added behind.
Status AddEosIds(const JsonFields& fields, ModelConfig* c) {
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return Status::Ok();
  const Json::Array one{*value};
  for (const Json& id : value->is_array() ? value->as_array() : one) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= c->vocab_size) {
      return fields.Bad(
          "eos_token_id",
          fmt::format("a token id from 0 to {}, or a list of them", c->vocab_size - 1), id);
    }
    if (std::find(c->eos_ids.begin(), c->eos_ids.end(), id.as_int()) == c->eos_ids.end()) {
      c->eos_ids.push_back(id.as_int());
    }
  }
  return Status::Ok();
}

Status ReadDtype(const JsonFields& fields, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::string old_name, fields.StringOr("torch_dtype", ""));
  WEFT_ASSIGN_OR_RETURN(const std::string name, fields.StringOr("dtype", old_name));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (NameOf(dtype) == name) c->dtype = dtype;
  }
  if (!name.empty() && !c->dtype) {
    c->notes.push_back(
        fmt::format("{}: dtype '{}' is unknown and ignored", fields.file(), Printable(name)));
  }
  return Status::Ok();
}

}  // namespace

Result<ModelConfig> ParseHfConfig(const Json& json, const std::string& file) {
  const JsonFields fields(json, file);
  ModelConfig config;
  config.source = file;
  WEFT_ASSIGN_OR_RETURN(const Family* family, ReadFamily(fields, &config));
  WEFT_RETURN_IF_ERROR(RefuseTheRest(fields, &config));
  WEFT_RETURN_IF_ERROR(ReadSizes(fields, *family, &config));
  WEFT_RETURN_IF_ERROR(ReadRope(fields, &config));
  WEFT_RETURN_IF_ERROR(RefuseWindow(fields, *family, &config));
  WEFT_RETURN_IF_ERROR(ReadBiases(fields, &config));
  WEFT_ASSIGN_OR_RETURN(config.tie_word_embeddings, fields.BoolOr("tie_word_embeddings", false));
  WEFT_ASSIGN_OR_RETURN(config.bos_id, fields.IntIfAny("bos_token_id", {0, config.vocab_size - 1}));
  WEFT_RETURN_IF_ERROR(AddEosIds(fields, &config));
  WEFT_RETURN_IF_ERROR(ReadDtype(fields, &config));
  WEFT_RETURN_IF_ERROR(CheckConfig(config, kNames));
  return config;
}

Status AddHfGenerationConfig(const Json& json, const std::string& file, ModelConfig* config) {
  const JsonFields fields(json, file);
  WEFT_RETURN_IF_ERROR(AddEosIds(fields, config));
  SamplingDefaults& sampling = config->sampling;
  // Zero is a temperature (greedy), so the bound lies just below it.
  WEFT_ASSIGN_OR_RETURN(sampling.temperature, fields.RealIfAny("temperature", {-1e-300, 100}));
  WEFT_ASSIGN_OR_RETURN(sampling.top_p, fields.RealIfAny("top_p", {0, 1}));
  WEFT_ASSIGN_OR_RETURN(sampling.top_k, fields.IntIfAny("top_k", {-1, ConfigLimits::kVocabMax}));
  return Status::Ok();
}

Result<ModelConfig> ReadHfConfig(const std::string& directory) {
  const std::string file = directory + "/config.json";
  WEFT_ASSIGN_OR_RETURN(const Json json, ReadJsonObject(file));
  WEFT_ASSIGN_OR_RETURN(ModelConfig config, ParseHfConfig(json, file));
  const std::string generation_file = directory + "/generation_config.json";
  const Result<Json> generation = ReadJsonObject(generation_file);
  if (generation.ok()) {
    WEFT_RETURN_IF_ERROR(AddHfGenerationConfig(generation.value(), generation_file, &config));
  } else if (generation.status().code() != StatusCode::kNotFound) {
    return generation.status();
  }
  return config;
}

}  // namespace weft::io
