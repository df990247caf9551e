// The fields that chat and text completions share, as checked values; and what the two add.
// Whatever is here was read from JSON and fits the engine's types; token ids are checked against
// the vocabulary, lengths against the context, when the request is built (service.cc). Fields that
// weft knows and cannot do are refused by name; unknown ones are left alone and logged.
// Source: as chat.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "serve/limits.h"
#include "serve/openai/errors.h"
#include "serve/openai/fields.h"

namespace weft::serve {

// What an absent sampling field means: the model's generation_config.json, else neutral values.
struct SamplingDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  int32_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

struct CommonParams {
  std::string model;  // "": any
  int32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  engine::SamplingParams sampling;  // max_tokens: see below
  std::optional<int32_t> max_tokens;
  std::vector<std::string> stop;
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  int32_t priority = 0;
  std::string cache_salt;
  std::string request_id;
  std::vector<std::string> unknown;  // names of fields that were left alone
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  CommonParams common;
  std::vector<Prompt> prompts;
  bool echo = false;
  bool add_special_tokens = true;
};

struct ChatRequest {
  CommonParams common;
  Json messages;         // array; every content is a string or absent
  Json template_kwargs;  // object of scalars, or null
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
};

struct ParamRules {
  RequestLimits limits;
  SamplingDefaults defaults;
};

std::optional<ApiError> ParseCompletion(const Json& body, const ParamRules& rules,
                                        CompletionRequest* out);
std::optional<ApiError> ParseChat(const Json& body, const ParamRules& rules, ChatRequest* out);

// The parts of ParseChat and ParseCompletion that /tokenize also needs.
void ReadMessages(Fields& fields, const RequestLimits& limits, ChatRequest* out);
// Common sampling fields; `chat` decides the form of logprobs.
void ReadCommon(Fields& fields, const ParamRules& rules, bool chat, CommonParams* out);

}  // namespace weft::serve
