#include "engine/sampling/params.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace weft::engine {
namespace {

Status CheckIds(const char* field, std::span<const int32_t> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return Status::Invalid("{}[{}] is {}; token ids of this model are 0 .. {}", field, i, ids[i],
                             vocab_size - 1);
    }
  }
  return Status::Ok();
}

// [low, high]; the negation also catches NaN.
Status CheckRange(const char* field, float value, float low, float high) {
  if (!(value >= low && value <= high)) {
    return Status::Invalid("{} is {}; it must be between {} and {}", field, value, low, high);
  }
  return Status::Ok();
}

Status CheckPositive(const char* field, float value, float high) {
  if (!(value > 0 && value <= high)) {
    return Status::Invalid("{} is {}; it must be above 0 and at most {}", field, value, high);
  }
  return Status::Ok();
}

Status CheckLogprobs(const char* field, std::optional<int32_t> value, int32_t max) {
  if (value && (*value < 0 || *value > max)) {
    return Status::Invalid("{} is {}; it must be between 0 and {} (--max-logprobs)", field, *value,
                           max);
  }
  return Status::Ok();
}

Status CheckLengths(const Request& request, const RequestLimits& limits) {
  const SamplingParams& p = request.sampling;
  if (p.max_tokens < 1) {
    return Status::Invalid("max_tokens is {}; it must be at least 1", p.max_tokens);
  }
  if (p.min_tokens < 0 || p.min_tokens > p.max_tokens) {
    return Status::Invalid("min_tokens is {}; it must be between 0 and max_tokens = {}",
                           p.min_tokens, p.max_tokens);
  }
  if (request.prompt.empty()) return Status::Invalid("the prompt is empty; it needs a token");
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt >= limits.max_model_len) {
    return Status::Invalid(
        "the prompt has {} tokens; with one to generate, at most {} fit (--max-model-len {})",
        prompt, limits.max_model_len - 1, limits.max_model_len);
  }
  // The last token's keys and values are never needed.
  const int64_t needed = std::min<int64_t>(prompt + p.max_tokens, limits.max_model_len) - 1;
  if (needed > limits.kv_tokens) {
    return Status::Invalid(
        "prompt {} + max_tokens {} need {} cached tokens; the whole KV cache holds {} "
        "(--kv-cache-memory-bytes, --max-model-len {})",
        prompt, p.max_tokens, needed, limits.kv_tokens, limits.max_model_len);
  }
  return Status::Ok();
}

Status CheckBias(const SamplingParams& p, int32_t vocab_size) {
  if (p.logit_bias.size() > kLogitBiasMax) {
    return Status::Invalid("logit_bias has {} entries; at most {} are allowed", p.logit_bias.size(),
                           kLogitBiasMax);
  }
  std::vector<int32_t> ids;
  for (const auto& [id, bias] : p.logit_bias) {
    if (!(std::abs(bias) <= 100.0f)) {
      return Status::Invalid("logit_bias of token {} is {}; it must be between -100 and 100", id,
                             bias);
    }
    ids.push_back(id);
  }
  WEFT_RETURN_IF_ERROR(CheckIds("logit_bias", ids, vocab_size));
  std::sort(ids.begin(), ids.end());
  if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end()) {
    return Status::Invalid("logit_bias names token {} twice", *twice);
  }
  return Status::Ok();
}

}  // namespace

Status Validate(const Request& request, const RequestLimits& limits) {
  const SamplingParams& p = request.sampling;
  if (request.id.empty()) return Status::Invalid("the request has no id");
  if (!request.sink) return Status::Invalid("request '{}' has nobody to hear it", request.id);
  WEFT_RETURN_IF_ERROR(CheckLengths(request, limits));
  WEFT_RETURN_IF_ERROR(CheckIds("prompt", request.prompt, limits.vocab_size));
  WEFT_RETURN_IF_ERROR(CheckRange("temperature", p.temperature, 0, 1e6f));
  WEFT_RETURN_IF_ERROR(CheckPositive("top_p", p.top_p, 1));
  WEFT_RETURN_IF_ERROR(CheckRange("min_p", p.min_p, 0, 1));
  if (p.top_k < -1) return Status::Invalid("top_k is {}; use 0 or -1 for all tokens", p.top_k);
  WEFT_RETURN_IF_ERROR(CheckPositive("repetition_penalty", p.repetition_penalty, 1e6f));
  WEFT_RETURN_IF_ERROR(CheckRange("presence_penalty", p.presence_penalty, -2, 2));
  WEFT_RETURN_IF_ERROR(CheckRange("frequency_penalty", p.frequency_penalty, -2, 2));
  if (p.stop_token_ids.size() > kStopTokenIdsMax) {
    return Status::Invalid("stop_token_ids has {} entries; at most {} are allowed",
                           p.stop_token_ids.size(), kStopTokenIdsMax);
  }
  WEFT_RETURN_IF_ERROR(CheckIds("stop_token_ids", p.stop_token_ids, limits.vocab_size));
  WEFT_RETURN_IF_ERROR(CheckBias(p, limits.vocab_size));
  WEFT_RETURN_IF_ERROR(CheckLogprobs("logprobs", p.logprobs, limits.top_logprobs_max));
  WEFT_RETURN_IF_ERROR(
      CheckLogprobs("prompt_logprobs", p.prompt_logprobs, limits.top_logprobs_max));
  return Status::Ok();
}

float EffectiveTemperature(float temperature) {
  if (temperature < 1e-5f) return 0;
  return std::max(temperature, 0.01f);
}

SampleRow MakeSampleRow(const SamplingParams& p, uint64_t seed, uint32_t choice) {
  SampleRow row;
  row.temperature = EffectiveTemperature(p.temperature);
  row.top_p = p.top_p;
  row.min_p = p.min_p;
  row.top_k = std::max(p.top_k, 0);
  row.repetition_penalty = p.repetition_penalty;
  row.presence_penalty = p.presence_penalty;
  row.frequency_penalty = p.frequency_penalty;
  row.seed = seed;
  row.choice = choice;
  row.logprobs = p.logprobs.value_or(-1);
  return row;
}

}  // namespace weft::engine
