// y[t,g,h] = round(x[t,g,h] * (1/sqrt(mean_h(x^2) + eps)) * gain[h]); optionally with the residual
// add before it: r' = round(r + x), y = norm(r').
//
// The sum of squares of a group: each leaf in 16 lanes (lane j takes elements j, j+16, ... of the
// leaf, acc = fma(x, x, acc)), Tree(0,16) over lanes, then the tree over leaves. mean = sum /
// width; scale = 1/sqrt(mean + eps), IEEE; y = round((x * scale) * gain). Source: docs/numerics.md
// 5 (row statistics); Zhang & Sennrich 2019.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct RmsNormArgs {
  View x;         // [T, groups * width] float32 or bfloat16
  View residual;  // [T, groups * width] or data == nullptr; updated in place to r' when given
  View y;         // [T, groups * width]; may be x itself
  const float* gain = nullptr;  // [width]
  float eps = 0;
  int groups = 1;  // heads for a per-head norm, else 1
  int64_t width = 0;
  const int64_t* leaf_begin = nullptr;  // [leaves + 1] inside a group
  int leaves = 1;
};

std::span<const Kernel<RmsNormArgs>* const> RmsNormKernels();

}  // namespace weft::kernels
