// sigmoid_mul over odd widths, with a gate of x's shape or one a row, in place and not.
#pragma once

#include <cmath>

#include "kernels/activation/sigmoid_mul.h"
#include "kernels/variants.h"

namespace weft::kernels::testing {

struct SigmoidMulCase {
  DType dtype;
  int64_t cols;
  bool one_gate;
  bool in_place;
};

struct SigmoidMulResult {
  Matrix x, gate, y;
};

inline SigmoidMulResult SigmoidMul(const Kernel<SigmoidMulArgs>& kernel, const SigmoidMulCase& c,
                                   int64_t rows, uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  SigmoidMulResult out{Matrix(c.dtype, rows, c.cols),
                       c.one_gate ? Matrix(DType::kF32, rows, 1) : Matrix(c.dtype, rows, c.cols),
                       Matrix(c.dtype, rows, c.cols)};
  out.x.Fill(1, 3);
  out.gate.Fill(2, 20);
  const float special[] = {0.0f, -0.0f, 88.0f, -88.0f, 1e30f, -1e30f, 1e-38f, -INFINITY};
  for (int64_t t = 0; t < std::min<int64_t>(rows, 8); ++t) out.gate.Set(t, 0, special[t]);
  const SigmoidMulArgs a{out.x.view(), out.gate.view(), c.in_place ? out.x.view() : out.y.view()};
  EXPECT_EQ(kernel.refuse(a), "");
  std::mt19937 random(slices);
  slices == 0 ? RunWhole(kernel, a) : RunSlices(kernel, a, RandomSlices(kernel.units(a), random));
  return out;
}

inline void ExpectEqual(const SigmoidMulResult& a, const SigmoidMulResult& b) {
  EXPECT_EQ(a.y.buffer(), b.y.buffer());
  EXPECT_EQ(a.x.buffer(), b.x.buffer());
  EXPECT_EQ(a.gate.buffer(), b.gate.buffer());
}

inline std::vector<SigmoidMulCase> SigmoidMulCases() {
  std::vector<SigmoidMulCase> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t cols : {1, 7, 8, 24, 31, 100, 1536}) {
      for (bool one_gate : {false, true}) {
        for (bool in_place : {false, true}) out.push_back({dtype, cols, one_gate, in_place});
      }
    }
  }
  return out;
}

}  // namespace weft::kernels::testing
