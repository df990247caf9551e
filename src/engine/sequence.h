// A request inside the engine: its tokens so far and where their keys and values are.
// Thread: built by the submitting thread, then owned by the engine's thread alone.
// Invariant: computed <= tokens.size(); its capacity holds all it can ever grow to, so that a step
// allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/kv/kv_cache.h"
#include "engine/request.h"
#include "engine/sampling/mask_cache.h"
#include "engine/sampling/penalties.h"

namespace weft::engine {

struct Sequence {
  std::unique_ptr<Request> request;
  uint64_t number = 0;  // in order of acceptance
  uint64_t seed = 0;

  std::vector<int32_t> tokens;  // prompt, then output
  int32_t prompt_tokens = 0;
  int32_t tokens_max = 0;  // the length at which it ends with kLength
  int32_t computed = 0;    // leading tokens whose keys and values are in the blocks
  std::vector<int32_t>
      drafts;                // guesses of what comes behind `tokens`, for the next step to verify
  int32_t replay = 0;        // rows of the last step's that a recurrent state has still to take in
  bool draft_cache = false;  // the draft head has keys and values of all that is computed
  BlockTable kv;
  int32_t seat = -1;     // row of the page table while running
  int32_t junction = 0;  // where its prompt left one that is known, if no state was kept there

  // Sampling state; it outlives a preemption.
  StopMask stop;
  SeenTokens seen;
  std::vector<int32_t> bias_ids;
  std::vector<float> bias;
  std::vector<PromptLogprob> prompt_logprobs;  // until the first event takes them
  int32_t prompt_logprobs_known = 0;

  int32_t cached_tokens = -1;  // of the first admission; -1 before it
  bool queued = true;          // counts against queue_max: it has never run
  bool heard = false;          // its owner has got an event
  int32_t preemptions = 0;
  int64_t admitted_ns = 0;
  int64_t last_token_ns = 0;

  // This step, set by the scheduler; 0: not in it.
  int32_t chunk = 0;
  int32_t chunk_heads = 0;                   // of the chunk's last rows, how many are head rows
  int32_t chunk_drafts = 0;                  // and how many of those are drafts
  FinishReason ended = FinishReason::kNone;  // its owner has had the last event

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  int32_t outputs() const { return length() - prompt_tokens; }
  // All but its last token is computed: a step of one row, and of its drafts, brings the next.
  bool decodes() const { return length() - computed == 1 && outputs() > 0; }
  const SamplingParams& sampling() const { return request->sampling; }
  bool wants_prompt_logprobs() const { return sampling().prompt_logprobs.has_value(); }
  // Head rows from this position on are still wanted, the row at p telling of token p + 1.
  int32_t first_head_position() const {
    return wants_prompt_logprobs() && prompt_logprobs_known < prompt_tokens - 1
               ? prompt_logprobs_known
               : length() - 1;
  }
};

}  // namespace weft::engine
