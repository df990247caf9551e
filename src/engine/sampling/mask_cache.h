// The ids that end a request, and the mask that keeps them from being drawn before min_tokens.
//
// Both lists are made once per request: the mask of a step is then a pointer that is there or not,
// instead of an index list rebuilt per step (article A's min-tokens cache).
// Thread: made by the submitting thread, then the engine's.
// Order of the checks as vLLM's check_stop: min_tokens, eos, stop_token_ids, then the lengths.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace weft::engine {

class StopMask {
 public:
  StopMask() = default;
  StopMask(const SamplingParams& params, std::span<const int32_t> eos_token_ids);

  // Ids with logit -inf for the token that becomes output number `outputs` (from 0): all stop ids,
  // and the end-of-sequence ids also with ignore_eos, as vLLM.
  std::span<const int32_t> BannedAt(int32_t outputs) const {
    return outputs < min_tokens_ ? std::span<const int32_t>(banned_) : std::span<const int32_t>();
  }

  struct Verdict {
    bool stop = false;
    int32_t stop_token = -1;  // as vLLM's stop_reason: empty for the first end-of-sequence id
  };
  // REQUIRES: `id` is output number `outputs`, counted from 1.
  Verdict Judge(int32_t id, int32_t outputs) const;

 private:
  int32_t min_tokens_ = 0;
  int32_t eos_ = -1;             // ends the request without a stop_token
  std::vector<int32_t> stops_;   // sorted
  std::vector<int32_t> banned_;  // sorted; empty without min_tokens
};

}  // namespace weft::engine
