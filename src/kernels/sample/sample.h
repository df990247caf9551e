// One token per row from fp32 logits, by the request's parameters; also log-probabilities.
//
// Order, as vLLM v1: allowed/banned ids and min-tokens mask, logit bias, repetition / presence /
// frequency penalties, temperature, min-p, top-k, top-p, draw. Candidates are sorted by
// (logit descending, id ascending); probabilities are exp(x - max) summed in that order. The draw
// is a pure function of (seed, choice, position, kind): stateless, the same under any batch.
// temperature == 0: argmax of the processed logits. Source: docs/numerics.md 12; spec of vLLM v1.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct SampleRow {
  float temperature = 1;
  float top_p = 1;               // (0, 1]
  float min_p = 0;               // [0, 1]
  int32_t top_k = 0;             // <= 0: all
  float repetition_penalty = 1;  // over prompt and output
  float presence_penalty = 0;    // over output
  float frequency_penalty = 0;   // over output
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;         // of the token that is drawn
  // Ids seen: sorted, unique, with how often in the output (0: only in the prompt).
  const int32_t* seen_ids = nullptr;
  const int32_t* seen_counts = nullptr;
  int32_t seen = 0;
  const int32_t* bias_ids = nullptr;   // logit_bias
  const float* bias = nullptr;
  int32_t biases = 0;
  const int32_t* banned = nullptr;     // ids with logit -inf (min_tokens, bad words)
  int32_t banned_count = 0;
  const uint32_t* allowed = nullptr;   // bit set of V (grammar), or nullptr: all
  int32_t logprobs = -1;               // < 0: none; n: the n best besides the chosen one
};

struct SampleOut {
  int32_t id = -1;
  float logprob = 0;       // of id, of the raw logits (vLLM's raw_logprobs)
  int32_t rank = 0;        // 1 + number of ids with a larger raw logit
  int32_t has_nan = 0;
};

struct SampleArgs {
  View logits;                      // [R, V] float32, whole vocabulary; not modified
  const SampleRow* rows = nullptr;  // [R]
  SampleOut* out = nullptr;         // [R]
  int32_t* top_ids = nullptr;       // [R, top_stride], best first; filled up to logprobs
  float* top_logprobs = nullptr;    // [R, top_stride]
  int32_t top_stride = 0;
  const int64_t* vocab_leaf_begin = nullptr;  // [leaves + 1], for the log-sum-exp
  int vocab_leaves = 1;
};
std::span<const Kernel<SampleArgs>* const> SampleKernels();  // unit = row

// Uniform in [0, 1) with 24 bits, from a counter-based generator (Philox4x32-10; Salmon et al. 2011).
float UniformDraw(uint64_t seed, uint32_t choice, uint32_t position, uint32_t kind);

}  // namespace weft::kernels
