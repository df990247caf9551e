#include "io/hf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "io/json_fields.h"
#include "io/json_file.h"
#include "io/printable.h"

namespace weft::io {
namespace {

constexpr RealRange kThetaRange{0, 1e12};
constexpr RealRange kEpsRange{0, 0.1};
constexpr RealRange kFactorRange{0, 1e6};

struct HfFamily {
  std::string_view family;
  int64_t head_dim = 0;  // when the file has none; 0: hidden_size / heads, if that divides
  bool window_unless_told = false;  // whether 'sliding_window' acts without 'use_sliding_window'
  bool experts = false;
  bool norm_topk_prob = false;  // when the file has none
  // Qwen3-Next and after it: layers of the gated delta rule, an output gate, gains around zero,
  // rope on a part of the head, a draft head.
  bool hybrid = false;
  bool nested = false;  // the language model may stand under 'text_config'
};

constexpr HfFamily kLlama{.family = "llama", .window_unless_told = true};
constexpr HfFamily kQwen2{.family = "qwen2"};
constexpr HfFamily kQwen3{.family = "qwen3", .head_dim = 128};
constexpr HfFamily kQwen3Moe{.family = "qwen3_moe", .experts = true};
constexpr HfFamily kQwen3Next{.family = "qwen3_next",
                              .head_dim = 256,
                              .experts = true,
                              .norm_topk_prob = true,
                              .hybrid = true};
constexpr HfFamily kQwen35{.family = "qwen3_5", .head_dim = 256, .hybrid = true, .nested = true};
constexpr HfFamily kQwen35Moe{.family = "qwen3_5",
                              .head_dim = 256,
                              .experts = true,
                              .norm_topk_prob = true,
                              .hybrid = true,
                              .nested = true};

constexpr std::pair<std::string_view, const HfFamily*> kArchitectures[] = {
    {"LlamaForCausalLM", &kLlama},
    {"MistralForCausalLM", &kLlama},
    {"Qwen2ForCausalLM", &kQwen2},
    {"Qwen3ForCausalLM", &kQwen3},
    {"Qwen3MoeForCausalLM", &kQwen3Moe},
    {"Qwen3NextForCausalLM", &kQwen3Next},
    {"Qwen3_5ForConditionalGeneration", &kQwen35},
    {"Qwen3_5ForCausalLM", &kQwen35},
    {"Qwen3_5MoeForConditionalGeneration", &kQwen35Moe},
    {"Qwen3_5MoeForCausalLM", &kQwen35Moe},
};

constexpr double kHybridRotaryPart = 0.25;  // when the file has none

constexpr ConfigNames kNames{
    .hidden_size = "hidden_size",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .rope_dims = "partial_rotary_factor * head_dim",
    .bos_id = "bos_token_id",
    .eos_ids = "eos_token_id",
    .intermediate_size = "intermediate_size",
    .key_heads = "linear_num_key_heads",
    .value_heads = "linear_num_value_heads",
    .experts = "num_experts",
    .experts_per_token = "num_experts_per_tok",
};

Result<const HfFamily*> ReadFamily(const JsonFields& fields, ModelConfig* config) {
  const Json* list = fields.Find("architectures");
  if (list == nullptr) return fields.Missing("architectures");
  if (!list->is_array() || list->as_array().size() != 1 || !list->as_array()[0].is_string()) {
    return fields.Bad("architectures", "an array of one string", *list);
  }
  config->architecture = list->as_array()[0].as_string();
  std::string known;
  for (const auto& [architecture, family] : kArchitectures) {
    if (architecture == config->architecture) {
      config->family = family->family;
      return family;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture);
  }
  return Status::Unsupported("{}: 'architectures' is {}, which is not supported; {} are",
                             fields.file(), Printable(config->architecture), known);
}

// A nested configuration says again what it is of; a dense one's fields in an MoE file would be
// misread.
Status CheckModelType(const JsonFields& fields, const HfFamily& family,
                      const std::string& architecture) {
  if (!family.nested) return Status::Ok();
  WEFT_ASSIGN_OR_RETURN(const std::string type, fields.StringOr("model_type", ""));
  const std::string plain = fmt::format("{}{}", family.family, family.experts ? "_moe" : "");
  if (type.empty() || type == plain || type == plain + "_text") return Status::Ok();
  return fields.Bad("model_type", fmt::format("{0} or {0}_text for {1}", plain, architecture),
                    *fields.Find("model_type"));
}

Status ReadSizes(const JsonFields& fields, const HfFamily& family, ModelConfig* c) {
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
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> width,
                        fields.IntIfAny("intermediate_size", {1, Limits::kIntermediateMax}));
  if (!width && !family.experts) return fields.Missing("intermediate_size");
  c->intermediate_size = width.value_or(0);
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

// Multimodal rope: which of three positions turns which frequency. The three are the same for text.
Status CheckSections(const JsonFields& rope, int64_t frequencies) {
  const Json* sections = rope.Find("mrope_section");
  if (sections == nullptr) return Status::Ok();
  int64_t sum = 0;
  bool good = sections->is_array() && sections->as_array().size() == 3;
  for (size_t i = 0; good && i < 3; ++i) {
    const Json& n = sections->as_array()[i];
    good = n.is_int() && n.as_int() >= 0 && n.as_int() <= frequencies;
    if (good) sum += n.as_int();
  }
  if (good && sum == frequencies) return Status::Ok();
  return rope.Bad("mrope_section",
                  fmt::format("three counts with the sum {}, a head's frequencies", frequencies),
                  *sections);
}

Status ReadScaling(const JsonFields& rope, ModelConfig* c) {
  WEFT_ASSIGN_OR_RETURN(const std::string old_type, rope.StringOr("type", "default"));
  WEFT_ASSIGN_OR_RETURN(const std::string type, rope.StringOr("rope_type", old_type));
  if (type == "default" || type == "mrope") return Status::Ok();
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
Status ReadRope(const JsonFields& fields, const HfFamily& family, ModelConfig* c) {
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
  const double share = part.value_or(family.hybrid ? kHybridRotaryPart : 1.0);
  c->rope.dims = static_cast<int64_t>(static_cast<double>(c->head_dim) * share);
  if (object == nullptr) return Status::Ok();
  return CheckSections(JsonFields(*object, fmt::format("{}: {}", fields.file(), key)),
                       c->rope.dims / 2);
}

// A list of one kind a layer, or every n-th layer.
Status ReadLayerKinds(const JsonFields& fields, ModelConfig* c) {
  const auto count = static_cast<size_t>(c->layers);
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> interval,
                        fields.IntIfAny("full_attention_interval", {1, ConfigLimits::kLayersMax}));
  const int64_t every = interval.value_or(kHybridFullInterval);
  for (int64_t i = 0; i < c->layers; ++i) {
    c->layer_kinds.push_back((i + 1) % every == 0 ? LayerKind::kFullAttention
                                                  : LayerKind::kLinearAttention);
  }
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) return Status::Ok();
  if (!types->is_array() || types->as_array().size() != count) {
    return fields.Bad("layer_types",
                      fmt::format("an array of 'num_hidden_layers' = {} strings", count), *types);
  }
  for (size_t i = 0; i < count; ++i) {
    const Json& type = types->as_array()[i];
    const bool full = type == Json("full_attention");
    if (!full && type != Json("linear_attention")) {
      return Status::Unsupported(
          "{}: 'layer_types' has {}; full_attention and linear_attention are supported",
          fields.file(), Printable(DumpJson(type)));
    }
    c->layer_kinds[i] = full ? LayerKind::kFullAttention : LayerKind::kLinearAttention;
  }
  return Status::Ok();
}

Status ReadHybrid(const JsonFields& fields, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_RETURN_IF_ERROR(ReadLayerKinds(fields, c));
  LinearAttentionConfig& linear = c->linear;
  if (std::count(c->layer_kinds.begin(), c->layer_kinds.end(), LayerKind::kLinearAttention) > 0) {
    WEFT_ASSIGN_OR_RETURN(linear.key_heads, fields.Int(kNames.key_heads, {1, Limits::kHeadsMax}));
    WEFT_ASSIGN_OR_RETURN(linear.value_heads,
                          fields.Int(kNames.value_heads, {1, Limits::kHeadsMax}));
    WEFT_ASSIGN_OR_RETURN(linear.key_dim,
                          fields.Int("linear_key_head_dim", {1, Limits::kHeadDimMax}));
    WEFT_ASSIGN_OR_RETURN(linear.value_dim,
                          fields.Int("linear_value_head_dim", {1, Limits::kHeadDimMax}));
    WEFT_ASSIGN_OR_RETURN(linear.conv_kernel,
                          fields.Int("linear_conv_kernel_dim", {1, Limits::kConvKernelMax}));
  } else {
    c->layer_kinds.clear();
  }
  WEFT_ASSIGN_OR_RETURN(const std::string gate, fields.StringOr("output_gate_type", "silu"));
  if (gate != "silu" && gate != "swish" && gate != "sigmoid") {
    return Status::Unsupported(
        "{}: 'output_gate_type' is '{}'; silu, swish and sigmoid are supported", fields.file(),
        Printable(gate));
  }
  linear.output_gate = gate == "sigmoid" ? GateActivation::kSigmoid : GateActivation::kSilu;
  WEFT_ASSIGN_OR_RETURN(c->attn_output_gate, fields.BoolOr("attn_output_gate", true));
  c->gain_plus_one = true;
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> mtp,
                        fields.IntIfAny("mtp_num_hidden_layers", {0, Limits::kMtpLayersMax}));
  c->mtp_layers = mtp.value_or(1);
  for (const std::string_view key : {"layer_scale", "mtp_use_dedicated_embeddings"}) {
    WEFT_ASSIGN_OR_RETURN(const bool set, fields.BoolOr(key, false));
    if (set)
      return Status::Unsupported("{}: '{}' is true, which is not supported", fields.file(), key);
  }
  return Status::Ok();
}

// Which layers have experts: all whose number the step divides, but for those of a list.
Status ReadExperts(const JsonFields& fields, const HfFamily& family, ModelConfig* c) {
  using Limits = ConfigLimits;
  WEFT_ASSIGN_OR_RETURN(c->experts, fields.Int(kNames.experts, {1, Limits::kExpertsMax}));
  WEFT_ASSIGN_OR_RETURN(c->experts_per_token,
                        fields.Int(kNames.experts_per_token, {1, Limits::kExpertsMax}));
  WEFT_ASSIGN_OR_RETURN(c->moe_intermediate_size,
                        fields.Int("moe_intermediate_size", {1, Limits::kIntermediateMax}));
  if (family.hybrid) {
    WEFT_ASSIGN_OR_RETURN(
        const std::optional<int64_t> shared,
        fields.IntIfAny("shared_expert_intermediate_size", {0, Limits::kIntermediateMax}));
    c->shared_expert_intermediate_size = shared.value_or(0);
  }
  WEFT_ASSIGN_OR_RETURN(c->norm_topk_prob, fields.BoolOr("norm_topk_prob", family.norm_topk_prob));
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> step,
                        fields.IntIfAny("decoder_sparse_step", {1, Limits::kLayersMax}));
  std::vector<bool> dense(static_cast<size_t>(c->layers));
  for (int64_t i = 0; i < c->layers; ++i)
    dense[static_cast<size_t>(i)] = (i + 1) % step.value_or(1) != 0;
  if (const Json* list = fields.Find("mlp_only_layers")) {
    const std::string expected = fmt::format("an array of layers from 0 to {}", c->layers - 1);
    if (!list->is_array()) return fields.Bad("mlp_only_layers", expected, *list);
    for (const Json& layer : list->as_array()) {
      if (!layer.is_int() || layer.as_int() < 0 || layer.as_int() >= c->layers) {
        return fields.Bad("mlp_only_layers", expected, layer);
      }
      dense[static_cast<size_t>(layer.as_int())] = true;
    }
  }
  for (int64_t i = 0; i < c->layers; ++i) {
    if (dense[static_cast<size_t>(i)]) c->dense_layers.push_back(i);
  }
  return Status::Ok();
}

Status RefuseWindow(const JsonFields& fields, const HfFamily& family, ModelConfig* c) {
  const Json* types = family.hybrid ? nullptr : fields.Find("layer_types");
  if (types != nullptr) {
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
  const JsonFields outer(json, file);
  ModelConfig config;
  config.source = file;
  WEFT_ASSIGN_OR_RETURN(const HfFamily* family, ReadFamily(outer, &config));
  const Json* text = family->nested ? outer.Find("text_config") : nullptr;
  if (text != nullptr && !text->is_object()) return outer.Bad("text_config", "an object", *text);
  const JsonFields fields(text != nullptr ? *text : json,
                          text != nullptr ? file + ": text_config" : file);
  WEFT_RETURN_IF_ERROR(CheckModelType(fields, *family, config.architecture));
  WEFT_RETURN_IF_ERROR(RefuseTheRest(fields, &config));
  if (text != nullptr) WEFT_RETURN_IF_ERROR(RefuseTheRest(outer, &config));
  WEFT_RETURN_IF_ERROR(ReadSizes(fields, *family, &config));
  WEFT_RETURN_IF_ERROR(ReadRope(fields, *family, &config));
  WEFT_RETURN_IF_ERROR(RefuseWindow(fields, *family, &config));
  WEFT_RETURN_IF_ERROR(ReadBiases(fields, &config));
  if (family->hybrid) WEFT_RETURN_IF_ERROR(ReadHybrid(fields, &config));
  if (family->experts) WEFT_RETURN_IF_ERROR(ReadExperts(fields, *family, &config));
  WEFT_ASSIGN_OR_RETURN(const bool tied, fields.BoolOr("tie_word_embeddings", false));
  // Of a nested file the outer key counts: transformers ties by it.
  WEFT_ASSIGN_OR_RETURN(config.tie_word_embeddings, outer.BoolOr("tie_word_embeddings", tied));
  WEFT_ASSIGN_OR_RETURN(config.bos_id, fields.IntIfAny("bos_token_id", {0, config.vocab_size - 1}));
  WEFT_RETURN_IF_ERROR(AddEosIds(fields, &config));
  WEFT_RETURN_IF_ERROR(ReadDtype(fields, &config));
  if (text != nullptr) {
    WEFT_RETURN_IF_ERROR(AddEosIds(outer, &config));
    if (!config.dtype) WEFT_RETURN_IF_ERROR(ReadDtype(outer, &config));
    config.vision = outer.Find("vision_config") != nullptr;
  }
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
