// One norm over rows of odd shapes, with and without a residual, in place and not.
#pragma once

#include <vector>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/variants.h"
#include "tensor/leaf_table.h"

namespace weft::kernels::testing {

struct NormCase {
  DType dtype;
  int groups;
  int64_t width;
  int64_t atom;
  bool residual;
  bool in_place;
};

struct NormResult {
  Matrix x, residual, y;
};

inline NormResult Norm(const Kernel<RmsNormArgs>& kernel, const NormCase& c, int64_t rows,
                       uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  const LeafTable table = LeafTable::Make(c.width, c.atom);
  const int64_t cols = c.groups * c.width;
  NormResult out{Matrix(c.dtype, rows, cols), Matrix(c.dtype, rows, cols),
                 Matrix(c.dtype, rows, cols)};
  out.x.Fill(1, 2);
  out.residual.Fill(2, 3);
  std::vector<float> gain(c.width);
  for (int64_t h = 0; h < c.width; ++h) gain[h] = 0.5f + static_cast<float>(h % 7);
  RmsNormArgs a;
  a.x = out.x.view();
  if (c.residual) a.residual = out.residual.view();
  a.y = c.in_place ? a.x : out.y.view();
  a.gain = gain.data();
  a.eps = 1e-6f;
  a.groups = c.groups;
  a.width = c.width;
  a.leaf_begin = table.starts().data();
  a.leaves = table.count();
  EXPECT_EQ(kernel.refuse(a), "");
  if (slices == 0) {
    RunWhole(kernel, a);
  } else {
    std::mt19937 random(slices);
    RunSlices(kernel, a, RandomSlices(kernel.units(a), random));
  }
  return out;
}

inline std::vector<NormCase> NormCases() {
  std::vector<NormCase> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (bool residual : {false, true}) {
      for (bool in_place : {false, true}) {
        out.push_back({dtype, 1, 576, 32, residual, in_place});
        out.push_back({dtype, 1, 1024, 32, residual, in_place});
        out.push_back({dtype, 3, 64, 64, residual, in_place});
        out.push_back({dtype, 2, 37, 10, residual, in_place});
        out.push_back({dtype, 1, 3, 1, residual, in_place});
        out.push_back({dtype, 1, 1007, 1, residual, in_place});
      }
    }
  }
  return out;
}

}  // namespace weft::kernels::testing
