// Two operands of odd shapes, and what a kernel makes of them.
#pragma once

#include <cmath>

#include "kernels/activation/silu_mul.h"
#include "kernels/variants.h"

namespace weft::kernels::testing {

struct ActivationResult {
  Matrix left, right, y;
};

template <typename Args>
ActivationResult Apply(const Kernel<Args>& kernel, DType dtype, int64_t rows, int64_t cols,
                       bool in_place, uint32_t slices) {
  ScopedFlushDenormals flush;
  ActivationResult out{Matrix(dtype, rows, cols), Matrix(dtype, rows, cols),
                       Matrix(dtype, rows, cols)};
  out.left.Fill(1, 20);
  out.right.Fill(2, 3);
  // Ends of silu: large, tiny, infinite, zero.
  const float special[] = {0.0f, -0.0f, 88.0f, -88.0f, 1e30f, -1e30f, 1e-38f, INFINITY};
  for (int64_t c = 0; c < std::min<int64_t>(cols, 8); ++c) out.left.Set(0, c, special[c]);
  const View y = in_place ? out.left.view() : out.y.view();
  const Args a{out.left.view(), out.right.view(), y};
  EXPECT_EQ(kernel.refuse(a), "");
  std::mt19937 random(slices);
  slices == 0 ? RunWhole(kernel, a) : RunSlices(kernel, a, RandomSlices(kernel.units(a), random));
  return out;
}

// visit(dtype, columns, in place)
template <typename Visit>
void ForEachActivation(const Visit& visit) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t cols : {1, 7, 8, 24, 31, 100, 1536}) {
      for (bool in_place : {false, true}) visit(dtype, cols, in_place);
    }
  }
}

}  // namespace weft::kernels::testing
