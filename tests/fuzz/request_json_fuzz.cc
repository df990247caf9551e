// libFuzzer: any bytes as the body of a chat or completion request. What is accepted lies within
// every range that the engine relies on.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "serve/openai/params.h"

namespace {

using weft::serve::CommonParams;
using weft::serve::ParamRules;

void Require(bool condition) {
  if (!condition) std::abort();
}

bool InRange(float value, float low, float high) {
  return std::isfinite(value) && value >= low && value <= high;
}

void CheckCommon(const CommonParams& params, const ParamRules& rules) {
  const auto& s = params.sampling;
  Require(InRange(s.temperature, 0, 2));
  Require(s.temperature == 0 || s.temperature >= 0.0099f);
  Require(InRange(s.top_p, 0, 1) && s.top_p > 0);
  Require(s.top_k >= 0);
  Require(InRange(s.min_p, 0, 1));
  Require(InRange(s.repetition_penalty, 0, 1e4f) && s.repetition_penalty > 0);
  Require(InRange(s.presence_penalty, -2, 2) && InRange(s.frequency_penalty, -2, 2));
  Require(params.n >= 1 && params.n <= rules.limits.choices_max);
  Require(s.min_tokens >= 0);
  Require(!s.logprobs || (*s.logprobs >= 0 && *s.logprobs <= rules.limits.logprobs_max));
  for (const int32_t id : s.stop_token_ids) Require(id >= 0);
  for (const auto& [id, bias] : s.logit_bias) Require(id >= 0 && InRange(bias, -100, 100));
  Require(params.stop.size() <= static_cast<size_t>(rules.limits.stop_strings_max));
  for (const auto& stop : params.stop) Require(!stop.empty() && stop.size() <= 256);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ParamRules rules;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = weft::ParseJson(text);
  if (!json.ok()) return 0;
  // What was read can be written and read again.
  const auto again = weft::ParseJson(weft::DumpJson(json.value()));
  Require(again.ok());

  weft::serve::CompletionRequest completion;
  if (const auto error = ParseCompletion(json.value(), rules, &completion)) {
    Require(error->status == 400 && !error->message.empty());
  } else {
    CheckCommon(completion.common, rules);
    Require(!completion.prompts.empty());
    Require(completion.prompts.size() * static_cast<size_t>(completion.common.n) <=
            static_cast<size_t>(rules.limits.sequences_max));
  }
  weft::serve::ChatRequest chat;
  if (const auto error = ParseChat(json.value(), rules, &chat)) {
    Require(error->status == 400 && !error->message.empty());
  } else {
    CheckCommon(chat.common, rules);
    Require(chat.messages.is_array() && !chat.messages.as_array().empty());
    for (const auto& message : chat.messages.as_array()) {
      const auto* content = message.Find("content");
      Require(content == nullptr || content->is_null() || content->is_string());
    }
  }
  return 0;
}
