// One gated norm over heads of odd widths, in place and not.
#pragma once

#include <vector>

#include "kernels/rms_norm/gated_rms_norm.h"
#include "kernels/variants.h"
#include "tensor/leaf_table.h"

namespace weft::kernels::testing {

struct GatedNormCase {
  DType dtype;
  int heads;
  int64_t width;
  GateActivation activation = GateActivation::kSilu;
  int in_place = 0;  // 1: y is o, 2: y is z
};

struct GatedNormResult {
  Matrix o, z, y;
  std::vector<float> w;
};

inline GatedNormResult GatedNorm(const Kernel<GatedRmsNormArgs>& kernel, const GatedNormCase& c,
                                 int64_t rows, uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  const LeafTable table = LeafTable::Make(c.width, 32);
  const int64_t cols = c.heads * c.width;
  GatedNormResult out{Matrix(c.dtype, rows, cols), Matrix(c.dtype, rows, cols),
                      Matrix(c.dtype, rows, cols), std::vector<float>(c.width)};
  out.o.Fill(1, 0.3f);
  out.z.Fill(2, 4);
  for (int64_t h = 0; h < c.width; ++h) out.w[h] = 0.5f + static_cast<float>(h % 7);
  GatedRmsNormArgs a;
  a.o = out.o.view();
  a.z = out.z.view();
  a.y = c.in_place == 1 ? a.o : c.in_place == 2 ? a.z : out.y.view();
  a.w = out.w.data();
  a.eps = 1e-6f;
  a.heads = c.heads;
  a.width = c.width;
  a.activation = c.activation;
  a.leaf_begin = table.starts().data();
  a.leaves = table.count();
  EXPECT_EQ(kernel.refuse(a), "");
  std::mt19937 random(slices);
  slices == 0 ? RunWhole(kernel, a) : RunSlices(kernel, a, RandomSlices(kernel.units(a), random));
  return out;
}

inline void ExpectEqual(const GatedNormResult& a, const GatedNormResult& b) {
  EXPECT_EQ(a.y.buffer(), b.y.buffer());
  EXPECT_EQ(a.o.buffer(), b.o.buffer());
  EXPECT_EQ(a.z.buffer(), b.z.buffer());
}

inline std::vector<GatedNormCase> GatedNormCases() {
  std::vector<GatedNormCase> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int in_place : {0, 1, 2}) {
      for (auto activation : {GateActivation::kSilu, GateActivation::kSigmoid}) {
        out.push_back({dtype, 3, 128, activation, in_place});
        out.push_back({dtype, 2, 16, activation, in_place});
        out.push_back({dtype, 2, 77, activation, in_place});
        out.push_back({dtype, 1, 1, activation, in_place});
      }
    }
  }
  return out;
}

}  // namespace weft::kernels::testing
