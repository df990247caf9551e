// One token per row from fp32 logits, by the request's parameters; also log-probabilities.
//
// Order, as vLLM v1: allowed/banned ids and min-tokens mask, logit bias, repetition / presence /
// frequency penalties, temperature, min-p, top-k, top-p, draw. Candidates are sorted by
// (logit descending, id ascending); weights are exp(x - max) as integers of 2^-40, whose sums
// depend on no order. What ties with the k-th stays in top-k; top-p cuts ties by id. The draw is a
// pure function of (seed, choice, position, kind): stateless, the same under any batch. temperature
// < 1e-5: argmax of the processed logits. No candidate: id -1. has_nan: a NaN among the raw logits,
// or a largest raw logit that is infinite. logprobs < 0: logprob and rank are 0. Source:
// docs/numerics.md 12; spec of vLLM v1.
#pragma once

#include "kernels/kernel.h"
#include "tensor/rows.h"
#include "tensor/view.h"

namespace weft::kernels {

using weft::SampleOut;
using weft::SampleRow;

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

// Uniform in [0, 1) with 24 bits, from a counter-based generator (Philox4x32-10; Salmon et al.
// 2011).
float UniformDraw(uint64_t seed, uint32_t choice, uint32_t position, uint32_t kind);

}  // namespace weft::kernels
