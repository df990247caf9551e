// What a request may ask for. One function validates every id list and every number, so that
// nothing behind Submit() meets an id outside of the vocabulary or a NaN.
// Thread: any (pure functions).
#pragma once

#include "base/status.h"
#include "engine/request.h"
#include "tensor/rows.h"

namespace weft::engine {

struct RequestLimits {
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t kv_tokens = 0;  // positions that the whole KV cache holds
  int32_t top_logprobs_max = 0;
};

inline constexpr int32_t kStopTokenIdsMax = 128;  // as vLLM
inline constexpr int32_t kLogitBiasMax = 1024;

// Errors: kInvalid with the field, the value and the bound; a flag where one moves it.
Status Validate(const Request& request, const RequestLimits& limits);

// As vLLM: below 1e-5 greedy, else at least 0.01 so that logits / temperature stays finite.
float EffectiveTemperature(float temperature);

// The parameters that never change during a request; pointers and position stay empty.
SampleRow MakeSampleRow(const SamplingParams& params, uint64_t seed, uint32_t choice);

}  // namespace weft::engine
