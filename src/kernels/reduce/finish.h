// The end of a reduction that ranks have split: add the roots by the tree, add the bias, round.
//   y[t][n] = round(Tree(roots)[t][n] + bias[n])
// Source: docs/numerics.md 3 (row-parallel output) and 6.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct FinishArgs {
  const float* const* roots = nullptr;  // [count], each [rows, stride] fp32, in leaf order
  const int64_t* strides = nullptr;     // [count] floats from row to row
  int count = 0;
  const uint8_t* merges = nullptr;  // [count], from RootMerges()
  const float* bias = nullptr;      // [cols] or nullptr
  View y;                           // [rows, cols] float32 or bfloat16
};

std::span<const Kernel<FinishArgs>* const> FinishKernels();

}  // namespace weft::kernels
