#include "kernels/rms_norm/rms_norm.h"

#include <cmath>

#include "kernels/rms_norm/rms_norm_case.h"

namespace weft::kernels {
namespace {

using testing::Norm;
using testing::NormCase;
using testing::NormResult;

TEST(RmsNorm, EveryVariantAndPartitionEqualsTheContract) {
  for (const NormCase& c : testing::NormCases()) {
    for (int64_t rows : {1, 5}) {
      const NormResult expected = Norm(*RmsNormKernels().back(), c, rows);
      for (const auto* kernel : testing::Runnable(RmsNormKernels())) {
        for (uint32_t slices : {0u, 3u}) {
          const NormResult got = Norm(*kernel, c, rows, slices);
          EXPECT_EQ(got.y.buffer(), expected.y.buffer()) << kernel->name << " width " << c.width;
          EXPECT_EQ(got.x.buffer(), expected.x.buffer()) << kernel->name << " width " << c.width;
          EXPECT_EQ(got.residual.buffer(), expected.residual.buffer()) << kernel->name;
        }
      }
    }
  }
}

// y = x g / sqrt(mean + eps): a sum of n squares of one sign, in 16 lanes and a tree, is off by
// less than (n/16 + 5 + 4) e relatively; half of that after the root; division, root and two
// products add 4 e, and the rounding u.
TEST(RmsNorm, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const NormCase c{dtype, 1, 576, 32, false, false};
    const NormResult got = Norm(*RmsNormKernels().back(), c, 3);
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
  const NormCase cut{DType::kF32, 1, 1000, 32, false, false};
  const NormCase whole{DType::kF32, 1, 1000, 1000, false, false};
  EXPECT_NE(Norm(*ref, cut, 64).y.buffer(), Norm(*ref, whole, 64).y.buffer());
}

}  // namespace
}  // namespace weft::kernels
