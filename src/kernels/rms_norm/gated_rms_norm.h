// The norm of every head by itself, then a gate:
//   y[t,g,h] = round(((o[t,g,h] * (1/sqrt(mean_h(o^2) + eps))) * w[h]) * act(z[t,g,h])).
//
// The sum of squares and what follows from it are rms_norm.h's, over one leaf table of a head's
// width; act is silu or sigmoid of simd/math.h. Only y is rounded.
// Source: docs/numerics.md 5 (row statistics).
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

enum class GateActivation : uint8_t { kSilu, kSigmoid };

struct GatedRmsNormArgs {
  View o;                    // [T, heads * width] float32 or bfloat16
  View z;                    // [T, heads * width]
  View y;                    // [T, heads * width]; may be o or z
  const float* w = nullptr;  // [width]
  float eps = 0;
  int heads = 0;
  int64_t width = 0;
  GateActivation activation = GateActivation::kSilu;
  const int64_t* leaf_begin = nullptr;  // [leaves + 1] inside a head
  int leaves = 1;
};

std::span<const Kernel<GatedRmsNormArgs>* const> GatedRmsNormKernels();

}  // namespace weft::kernels
