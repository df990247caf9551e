// What a step's rows are, as plain data: the words that engine, plan and kernels share.
// A step has T token rows, cut into segments (one per request), and R head rows that are sampled.
#pragma once

#include <cstdint>

namespace weft {

// Rows [row_begin, row_begin + rows) of a step belong to one request and stand at positions
// position_begin, position_begin + 1, ... Row i attends to keys 0 .. position_begin + i.
//
// Layers that carry a state from row to row keep it in a slot of a pool: the state after the rows
// that are settled, and a log of the rows behind them that a later step may still take back. Such a
// step says with `replay` how many of the log's rows were accepted; they are applied before its
// first row, and the rest of the log is forgotten. position_begin == 0 starts from the zero state
// and never reads the slot.
struct Segment {
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t position_begin = 0;
  int32_t page_count = 0;
  const int32_t* pages = nullptr;  // [page_count] page ids, in order of position
  int32_t state = 0;               // the slot; no two segments of a step share one
  int32_t replay = 0;              // 0 where position_begin is 0
  int32_t logged = 0;  // <= rows: the last ones go to the slot's log, not into its state
};

// How one head row is turned into a token. Order of processing, as vLLM v1: allowed and banned ids,
// logit bias, repetition / presence / frequency penalties, temperature, min-p, top-k, top-p, draw.
struct SampleRow {
  float temperature = 1;         // 0: the largest processed logit
  float top_p = 1;               // (0, 1]
  float min_p = 0;               // [0, 1]
  int32_t top_k = 0;             // <= 0: all
  float repetition_penalty = 1;  // over prompt and output
  float presence_penalty = 0;    // over output
  float frequency_penalty = 0;   // over output
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;  // of the token that is drawn
  // Ids seen: sorted, unique, with how often in the output (0: only in the prompt).
  const int32_t* seen_ids = nullptr;
  const int32_t* seen_counts = nullptr;
  int32_t seen = 0;
  const int32_t* bias_ids = nullptr;  // logit_bias
  const float* bias = nullptr;
  int32_t biases = 0;
  const int32_t* banned = nullptr;  // ids with logit -inf (min_tokens, bad words)
  int32_t banned_count = 0;
  const uint32_t* allowed = nullptr;  // bit set of V (grammar), or nullptr: all
  int32_t logprobs = -1;              // < 0: none; n: the n best besides the chosen one
  int32_t target =
      -1;  // >= 0: draw nothing; id is this, with its logprob and rank (prompt_logprobs)
};

struct SampleOut {
  int32_t id = -1;
  float logprob = 0;  // of id, from the raw logits (vLLM's raw_logprobs)
  int32_t rank = 0;   // 1 + number of ids with a larger raw logit
  int32_t has_nan = 0;
};

}  // namespace weft
