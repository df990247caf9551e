#include "kernels/rms_norm/rms_norm.h"

#include <cmath>

#include "kernels/variants.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

struct Case {
  DType dtype;
  int groups;
  int64_t width;
  int64_t atom;
  bool residual;
  bool in_place;
};

struct Result {
  Matrix x, residual, y;
};

Result Norm(const Kernel<RmsNormArgs>& kernel, const Case& c, int64_t rows, uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  const LeafTable table = LeafTable::Make(c.width, c.atom);
  const int64_t cols = c.groups * c.width;
  Result out{Matrix(c.dtype, rows, cols), Matrix(c.dtype, rows, cols), Matrix(c.dtype, rows, cols)};
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
    testing::RunWhole(kernel, a);
  } else {
    std::mt19937 random(slices);
    testing::RunSlices(kernel, a, testing::RandomSlices(kernel.units(a), random));
  }
  return out;
}

std::vector<Case> Cases() {
  std::vector<Case> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (bool residual : {false, true}) {
      for (bool in_place : {false, true}) {
        out.push_back({dtype, 1, 576, 32, residual, in_place});
        out.push_back({dtype, 1, 1024, 32, residual, in_place});
        out.push_back({dtype, 3, 64, 64, residual, in_place});
        out.push_back({dtype, 2, 37, 10, residual, in_place});
        out.push_back({dtype, 1, 3, 1, residual, in_place});
      }
    }
  }
  return out;
}

TEST(RmsNorm, EveryVariantAndPartitionEqualsTheContract) {
  for (const Case& c : Cases()) {
    for (int64_t rows : {1, 5}) {
      const Result expected = Norm(*RmsNormKernels().back(), c, rows);
      for (const auto* kernel : testing::Runnable(RmsNormKernels())) {
        for (uint32_t slices : {0u, 3u}) {
          const Result got = Norm(*kernel, c, rows, slices);
          EXPECT_EQ(got.y.buffer(), expected.y.buffer()) << kernel->name << " width " << c.width;
          EXPECT_EQ(got.x.buffer(), expected.x.buffer()) << kernel->name << " width " << c.width;
          EXPECT_EQ(got.residual.buffer(), expected.residual.buffer()) << kernel->name;
        }
      }
    }
  }
}

// y = x g / sqrt(mean + eps): a sum of n squares of one sign, in 16 lanes and a tree, is off by less
// than (n/16 + 5 + 4) e relatively; half of that after the root; division, root and two products add
// 4 e, and the rounding u.
TEST(RmsNorm, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const Case c{dtype, 1, 576, 32, false, false};
    const Result got = Norm(*RmsNormKernels().back(), c, 3);
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    for (int64_t t = 0; t < 3; ++t) {
      double sum = 0;
      for (int64_t h = 0; h < c.width; ++h) sum += double{got.x.Get(t, h)} * got.x.Get(t, h);
      const double scale = 1 / std::sqrt(sum / 576 + double{1e-6f});
      for (int64_t h = 0; h < c.width; ++h) {
        const double y = got.x.Get(t, h) * scale * (0.5 + static_cast<double>(h % 7));
        const double bound = std::abs(y) * ((576.0 / 16 + 9 + 4) * 0x1p-24 + u);
        ASSERT_LE(std::abs(got.y.Get(t, h) - y), bound) << t << " " << h;
      }
    }
  }
}

// Negative control: other leaves are another sum.
TEST(RmsNorm, LeavesAreSeenInTheBits) {
  const auto* ref = RmsNormKernels().back();
  const Case cut{DType::kF32, 1, 1000, 32, false, false};
  const Case whole{DType::kF32, 1, 1000, 1000, false, false};
  EXPECT_NE(Norm(*ref, cut, 64).y.buffer(), Norm(*ref, whole, 64).y.buffer());
}

}  // namespace
}  // namespace weft::kernels
