#include "serve/openai/params.h"

#include <fmt/format.h>

#include <charconv>

namespace weft::serve {
namespace {

// Below this temperature the softmax is a one-hot in fp32 anyway; vLLM's two thresholds.
constexpr double kGreedyBelow = 1e-5;
constexpr double kTemperatureMin = 0.01;

bool IsEmptyContainer(const Json& value) {
  return (value.is_array() && value.as_array().empty()) ||
         (value.is_object() && value.as_object().empty());
}

// Well-known fields that would change the answer and that weft cannot do yet.
void RefuseUnsupported(Fields& fields) {
  for (const char* key : {"tools",
                          "functions",
                          "structured_outputs",
                          "guided_json",
                          "guided_regex",
                          "guided_choice",
                          "guided_grammar",
                          "grammar",
                          "json_schema",
                          "bad_words",
                          "allowed_token_ids",
                          "logprob_token_ids",
                          "prompt_logprobs",
                          "suffix",
                          "thinking_token_budget",
                          "truncate_prompt_tokens",
                          "prompt_embeds",
                          "kv_transfer_params",
                          "repetition_detection",
                          "chat_template",
                          "audio",
                          "modalities",
                          "prediction",
                          "web_search_options"}) {
    const Json* value = fields.Get(key);
    if (value == nullptr || IsEmptyContainer(*value)) continue;
    if (std::string_view(key) == "suffix" && value->is_string() && value->as_string().empty())
      continue;
    if (std::string_view(key) == "modalities" && *value == Json(Json::Array{Json("text")}))
      continue;
    fields.Fail(NotSupported(fields.PathOf(key), fmt::format("'{}'", key)));
  }
  if (fields.Bool("use_beam_search").value_or(false)) {
    fields.Fail(NotSupported(fields.PathOf("use_beam_search"), "Beam search"));
  }
  if (const Json* choice = fields.Get("tool_choice");
      choice != nullptr && *choice != Json("none") && *choice != Json("auto")) {
    fields.Fail(NotSupported(fields.PathOf("tool_choice"), "'tool_choice'"));
  }
  if (const Json* format = fields.Get("response_format"); format != nullptr) {
    const Json* type = format->Find("type");
    if (type == nullptr || !type->is_string()) {
      fields.Fail("response_format", "response_format must be an object with a type.");
    } else if (type->as_string() != "text") {
      fields.Fail(NotSupported("response_format",
                               fmt::format("response_format {}", Echo(type->as_string()))));
    }
  }
}

void ReadStop(Fields& fields, const RequestLimits& limits, CommonParams* out) {
  const Json* stop = fields.Get("stop");
  if (stop == nullptr) return;
  Json::Array one;
  if (stop->is_string()) one.push_back(*stop);
  if (!stop->is_string() && !stop->is_array()) {
    return fields.Fail("stop", "stop must be a string or a list of strings.");
  }
  const Json::Array& list = stop->is_array() ? stop->as_array() : one;
  if (static_cast<int64_t>(list.size()) > limits.stop_strings_max) {
    return fields.Fail("stop", fmt::format("stop has more than {} strings (--max-stop-strings).",
                                           limits.stop_strings_max));
  }
  for (const Json& entry : list) {
    if (!entry.is_string())
      return fields.Fail("stop", "stop must be a string or a list of strings.");
    const size_t bytes = entry.as_string().size();
    if (bytes == 0) return fields.Fail("stop", "stop holds an empty string.");
    if (bytes > static_cast<size_t>(limits.stop_string_bytes_max)) {
      return fields.Fail("stop", fmt::format("stop holds a string of more than {} bytes.",
                                             limits.stop_string_bytes_max));
    }
    out->stop.push_back(entry.as_string());
  }
}

void ReadLogitBias(Fields& fields, const RequestLimits& limits, CommonParams* out) {
  const Json* bias = fields.Get("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object())
    return fields.Fail("logit_bias", "logit_bias must map token ids to numbers.");
  if (static_cast<int64_t>(bias->as_object().size()) > limits.logit_bias_max) {
    return fields.Fail("logit_bias",
                       fmt::format("logit_bias has more than {} entries.", limits.logit_bias_max));
  }
  for (const auto& [key, value] : bias->as_object()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      return fields.Fail("logit_bias", "logit_bias holds a key that is no token id.");
    }
    if (!value.is_number() || !(value.as_double() >= -100.0 && value.as_double() <= 100.0)) {
      return fields.Fail("logit_bias",
                         "logit_bias holds a value that is no number from -100 to 100.");
    }
    for (const auto& [seen, unused] : out->sampling.logit_bias) {
      if (seen == id) return fields.Fail("logit_bias", "logit_bias holds a token id twice.");
    }
    out->sampling.logit_bias.emplace_back(id, static_cast<float>(value.as_double()));
  }
}

void ReadLogprobs(Fields& fields, const RequestLimits& limits, bool chat, CommonParams* out) {
  if (!chat) {
    if (const auto count = fields.Int("logprobs", 0, limits.logprobs_max)) {
      out->sampling.logprobs = static_cast<int32_t>(*count);
    }
    return;
  }
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Int("top_logprobs", 0, limits.logprobs_max);
  if (top && *top > 0 && !wanted) {
    return fields.Fail("top_logprobs", "top_logprobs needs logprobs to be true.");
  }
  if (wanted) out->sampling.logprobs = static_cast<int32_t>(top.value_or(0));
}

void ReadStream(Fields& fields, CommonParams* out) {
  out->stream = fields.Bool("stream").value_or(false);
  const Json* options = fields.Get("stream_options");
  if (options == nullptr) return;
  if (!out->stream) return fields.Fail("stream_options", "stream_options needs stream to be true.");
  Fields inner(*options, "stream_options");
  out->include_usage = inner.Bool("include_usage").value_or(false);
  out->continuous_usage = inner.Bool("continuous_usage_stats").value_or(false);
  if (inner.error()) fields.Fail(*inner.error());
}

void ReadSampling(Fields& fields, const ParamRules& rules, CommonParams* out) {
  engine::SamplingParams& s = out->sampling;
  const SamplingDefaults& d = rules.defaults;
  double temperature = fields.Number("temperature", 0, 2).value_or(d.temperature);
  if (temperature < kGreedyBelow) temperature = 0;
  if (temperature > 0 && temperature < kTemperatureMin) temperature = kTemperatureMin;
  s.temperature = static_cast<float>(temperature);
  const double top_p = fields.Number("top_p", 0, 1).value_or(d.top_p);
  s.top_p = static_cast<float>(top_p);
  // A positive double may still be a zero as a float; zero is no probability mass to draw from.
  if (!(s.top_p > 0)) fields.Fail("top_p", "top_p must be a number above 0 and up to 1.");
  s.top_k = static_cast<int32_t>(fields.Int("top_k", -1, INT32_MAX).value_or(d.top_k));
  if (s.top_k == -1) s.top_k = 0;
  s.min_p = static_cast<float>(fields.Number("min_p", 0, 1).value_or(d.min_p));
  const double repetition =
      fields.Number("repetition_penalty", 0, 1e4).value_or(d.repetition_penalty);
  s.repetition_penalty = static_cast<float>(repetition);
  if (!(s.repetition_penalty > 0)) {
    fields.Fail("repetition_penalty", "repetition_penalty must be a number above 0.");
  }
  s.presence_penalty = static_cast<float>(fields.Number("presence_penalty", -2, 2).value_or(0));
  s.frequency_penalty = static_cast<float>(fields.Number("frequency_penalty", -2, 2).value_or(0));
  // -1 stands for "none" in clients that cannot leave a field out.
  if (const auto seed = fields.Int("seed", INT64_MIN, INT64_MAX); seed && *seed != -1) {
    s.seed = static_cast<uint64_t>(*seed);
  }
  s.min_tokens = static_cast<int32_t>(fields.Int("min_tokens", 0, INT32_MAX).value_or(0));
  s.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  if (auto ids = fields.Ids("stop_token_ids", rules.limits.stop_token_ids_max)) {
    s.stop_token_ids = std::move(*ids);
  }
}

}  // namespace

void ReadCommon(Fields& fields, const ParamRules& rules, bool chat, CommonParams* out) {
  const RequestLimits& limits = rules.limits;
  out->model = fields.String("model").value_or("");
  out->n = static_cast<int32_t>(fields.Int("n", 1, limits.choices_max).value_or(1));
  if (const auto best_of = fields.Int("best_of", 1, INT32_MAX); best_of && *best_of != out->n) {
    fields.Fail(NotSupported("best_of", "'best_of' other than n"));
  }
  ReadStream(fields, out);
  ReadSampling(fields, rules, out);
  ReadStop(fields, limits, out);
  ReadLogitBias(fields, limits, out);
  ReadLogprobs(fields, limits, chat, out);
  RefuseUnsupported(fields);
  out->include_stop = fields.Bool("include_stop_str_in_output").value_or(false);
  out->skip_special_tokens = fields.Bool("skip_special_tokens").value_or(true);
  out->return_token_ids = fields.Bool("return_token_ids").value_or(false);
  out->priority = static_cast<int32_t>(fields.Int("priority", INT32_MIN, INT32_MAX).value_or(0));
  out->cache_salt = fields.String("cache_salt").value_or("");
  if (out->cache_salt.size() > 256)
    fields.Fail("cache_salt", "cache_salt has more than 256 bytes.");
  // Accepted because they change nothing here.
  for (const char* key : {"user", "metadata", "store", "service_tier", "parallel_tool_calls",
                          "spaces_between_special_tokens", "prompt_cache_key", "safety_identifier",
                          "request_id", "length_penalty"}) {
    fields.Get(key);
  }
}

std::optional<ApiError> ParseCompletion(const Json& body, const ParamRules& rules,
                                        CompletionRequest* out) {
  Fields fields(body);
  if (!fields.ok()) return fields.error();
  ReadCommon(fields, rules, false, &out->common);
  out->echo = fields.Bool("echo").value_or(false);
  out->add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  const auto max_tokens = fields.Int("max_tokens", out->echo ? 0 : 1, INT32_MAX);
  if (max_tokens) out->common.max_tokens = static_cast<int32_t>(*max_tokens);
  // Echoed text gets its logprobs too: that is how likelihoods are measured.
  if (out->echo) out->common.sampling.prompt_logprobs = out->common.sampling.logprobs;

  const Json* prompt = fields.Get("prompt");
  const auto add_ids = [&](const Json::Array& list) {
    std::vector<int32_t> ids;
    ids.reserve(list.size());
    for (const Json& entry : list) {
      const auto id = IntegerOf(entry, 0, INT32_MAX);
      if (!id) return fields.Fail("prompt", "prompt holds something that is no token id.");
      ids.push_back(static_cast<int32_t>(*id));
    }
    if (ids.empty()) return fields.Fail("prompt", "prompt holds an empty list.");
    out->prompts.emplace_back(std::move(ids));
  };
  if (prompt == nullptr) {
    fields.Fail("prompt", "prompt is missing.");
  } else if (prompt->is_string()) {
    out->prompts.emplace_back(prompt->as_string());
  } else if (!prompt->is_array() || prompt->as_array().empty()) {
    fields.Fail("prompt", "prompt must be a string, a list of strings, or token ids.");
  } else if (prompt->as_array().front().is_number()) {
    add_ids(prompt->as_array());
  } else {
    const Json::Array& list = prompt->as_array();
    if (static_cast<int64_t>(list.size()) > rules.limits.prompts_max) {
      fields.Fail("prompt",
                  fmt::format("prompt has more than {} entries.", rules.limits.prompts_max));
      return fields.error();
    }
    for (const Json& entry : list) {
      if (entry.is_string()) {
        out->prompts.emplace_back(entry.as_string());
      } else if (entry.is_array()) {
        add_ids(entry.as_array());
      } else {
        fields.Fail("prompt", "prompt must be a string, a list of strings, or token ids.");
      }
    }
  }
  if (static_cast<int64_t>(out->prompts.size()) * out->common.n > rules.limits.sequences_max) {
    fields.Fail("n", fmt::format("n times the number of prompts is more than {}.",
                                 rules.limits.sequences_max));
  }
  out->common.unknown = fields.Unknown();
  return fields.error();
}

void ReadMessages(Fields& fields, const RequestLimits& limits, ChatRequest* out) {
  const Json* messages = fields.Get("messages");
  if (messages == nullptr || !messages->is_array() || messages->as_array().empty()) {
    return fields.Fail("messages", "messages must be a list with at least one message.");
  }
  if (static_cast<int64_t>(messages->as_array().size()) > limits.messages_max) {
    return fields.Fail("messages",
                       fmt::format("messages has more than {} entries.", limits.messages_max));
  }
  Json::Array read;
  size_t index = 0;
  for (const Json& message : messages->as_array()) {
    const std::string path = fmt::format("messages.{}", index++);
    Fields inner(message, path);
    const auto role = inner.String("role");
    if (inner.ok() && !role) inner.Fail("role", fmt::format("{}.role is missing.", path));
    if (inner.ok()) {
      bool known = false;
      for (const char* name : {"system", "developer", "user", "assistant", "tool"}) {
        known = known || *role == name;
      }
      if (!known) inner.Fail("role", fmt::format("The role {} is unknown.", Echo(*role)));
    }
    if (inner.error()) return fields.Fail(*inner.error());
    Json copy = message;
    const Json* content = inner.Get("content");
    if (content != nullptr && content->is_array()) {
      // vLLM's "string" form: the texts of the parts, one below the other.
      std::string joined;
      bool first = true;
      for (const Json& part : content->as_array()) {
        const Json* type = part.Find("type");
        const Json* text = part.Find("text");
        if (type != nullptr && type->is_string() && type->as_string() != "text") {
          return fields.Fail(NotSupported(
              path + ".content", fmt::format("Content of type {}", Echo(type->as_string()))));
        }
        if (text == nullptr || !text->is_string()) {
          return fields.Fail(BadField(path + ".content", "A content part has no text."));
        }
        if (!first) joined += '\n';
        first = false;
        joined += text->as_string();
      }
      copy.Set("content", std::move(joined));
    } else if (content != nullptr && !content->is_string()) {
      return fields.Fail(
          BadField(path + ".content", "content must be a string or a list of parts."));
    } else if (content == nullptr && *role != "assistant") {
      return fields.Fail(BadField(path + ".content", fmt::format("{}.content is missing.", path)));
    }
    if (const Json* calls = inner.Get("tool_calls"); calls != nullptr && !calls->is_array()) {
      return fields.Fail(BadField(path + ".tool_calls", "tool_calls must be a list."));
    }
    read.push_back(std::move(copy));
  }
  out->messages = Json(std::move(read));

  out->add_generation_prompt = fields.Bool("add_generation_prompt").value_or(true);
  out->continue_final_message = fields.Bool("continue_final_message").value_or(false);
  if (out->continue_final_message) {
    fields.Fail(NotSupported("continue_final_message", "'continue_final_message'"));
  }
  out->add_special_tokens = fields.Bool("add_special_tokens").value_or(false);
  if (const Json* kwargs = fields.Get("chat_template_kwargs"); kwargs != nullptr) {
    if (!kwargs->is_object()) {
      return fields.Fail("chat_template_kwargs", "chat_template_kwargs must be an object.");
    }
    for (const auto& [key, value] : kwargs->as_object()) {
      if (value.is_array() || value.is_object()) {
        return fields.Fail("chat_template_kwargs",
                           "chat_template_kwargs may only hold plain values.");
      }
      // What the server itself gives to a template is not the client's to replace.
      for (const char* name : {"messages", "tools", "documents", "add_generation_prompt",
                               "tokenize", "bos_token", "eos_token", "chat_template"}) {
        if (key == name) {
          return fields.Fail("chat_template_kwargs",
                             fmt::format("chat_template_kwargs may not set {}.", Echo(key)));
        }
      }
    }
    out->template_kwargs = *kwargs;
  }
}

std::optional<ApiError> ParseChat(const Json& body, const ParamRules& rules, ChatRequest* out) {
  Fields fields(body);
  if (!fields.ok()) return fields.error();
  ReadCommon(fields, rules, true, &out->common);
  const auto max_tokens = fields.Int("max_tokens", 1, INT32_MAX);
  const auto completion = fields.Int("max_completion_tokens", 1, INT32_MAX);
  if (completion ? completion : max_tokens) {
    out->common.max_tokens = static_cast<int32_t>(*(completion ? completion : max_tokens));
  }
  if (fields.Bool("echo").value_or(false)) fields.Fail(NotSupported("echo", "echo of a chat"));
  if (const Json* documents = fields.Get("documents");
      documents != nullptr && !IsEmptyContainer(*documents)) {
    fields.Fail(NotSupported("documents", "'documents'"));
  }
  ReadMessages(fields, rules.limits, out);
  out->common.unknown = fields.Unknown();
  return fields.error();
}

}  // namespace weft::serve
