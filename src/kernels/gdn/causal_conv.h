// A short causal convolution of every channel by itself, then silu:
//   c[t,c] = sum over j < taps of w[j][c] * m[t - taps + 1 + j][c],   y = round(silu(c)).
// m are the raw inputs of the sequence, not rounded again; those before its first token are zero.
//
// The sum is acc = fma(w[j], m, acc), j ascending from +0, in fp32; silu is that of simd/math.h.
//
// What a sequence carries from step to step is in its slot of a pool, [taps - 1 + log_max][C] in
// x's dtype, oldest row first: the raw inputs before the first row that is not settled, then the
// logged raw rows (tensor/rows.h). With replay = n the history is therefore rows [n, n + taps - 1);
// a step leaves taps - 1 + logged rows behind and touches no others. Values are moved, bits and
// all. Source: docs/numerics.md 5 and 11.
#pragma once

#include "kernels/kernel.h"
#include "tensor/rows.h"
#include "tensor/view.h"

namespace weft::kernels {

inline constexpr int kConvTapsMax = 8;

struct CausalConvArgs {
  View x;                    // [T, C] float32 or bfloat16
  View y;                    // [T, C] in x's dtype; may be x itself
  const float* w = nullptr;  // [taps][C]; row taps - 1 meets the current token
  int64_t w_stride = 0;      // between rows of w, at least C
  int taps = 0;              // 2 .. kConvTapsMax
  const Segment* segments = nullptr;
  int segment_count = 0;
  void* state = nullptr;         // the pool of this layer, at its first slot's first channel here
  int64_t state_stride = 0;      // elements between slots
  int64_t state_row_stride = 0;  // elements between rows of a slot, at least C
  int log_max = 0;

  int slot_rows() const { return taps - 1 + log_max; }
};

// A unit is a block of channels of one segment, block-major: a contiguous share of the units is the
// same channels of every segment, however their lengths differ.
inline constexpr int64_t kConvChannels = 64;

std::span<const Kernel<CausalConvArgs>* const> CausalConvKernels();

}  // namespace weft::kernels
