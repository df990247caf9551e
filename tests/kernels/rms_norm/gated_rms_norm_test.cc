#include "kernels/rms_norm/gated_rms_norm.h"

#include <cmath>

#include "kernels/rms_norm/gated_rms_norm_case.h"

namespace weft::kernels {
namespace {

using testing::GatedNorm;
using testing::GatedNormCase;
using testing::GatedNormResult;

TEST(GatedRmsNorm, EveryVariantAndPartitionEqualsTheContract) {
  for (const GatedNormCase& c : testing::GatedNormCases()) {
    for (int64_t rows : {1, 5}) {
      const GatedNormResult expected = GatedNorm(*GatedRmsNormKernels().back(), c, rows);
      for (const auto* kernel : testing::Runnable(GatedRmsNormKernels())) {
        for (uint32_t slices : {0u, 3u}) {
          SCOPED_TRACE(std::string(kernel->name) + " width " + std::to_string(c.width));
          testing::ExpectEqual(GatedNorm(*kernel, c, rows, slices), expected);
        }
      }
    }
  }
}

TEST(GatedRmsNorm, InPlaceIsTheSame) {
  GatedNormCase c{DType::kBF16, 3, 100};
  const GatedNormResult apart = GatedNorm(*GatedRmsNormKernels().back(), c, 4);
  c.in_place = 1;
  EXPECT_EQ(GatedNorm(*GatedRmsNormKernels().back(), c, 4).o.buffer(), apart.y.buffer());
  c.in_place = 2;
  EXPECT_EQ(GatedNorm(*GatedRmsNormKernels().back(), c, 4).z.buffer(), apart.y.buffer());
}

// As rms_norm's: half of (n/16 + 9) e behind the root, 4 e for root, quotient and products; the
// gate 4 e and its product e; then the rounding u.
TEST(GatedRmsNorm, ContractIsWithinItsBoundOfDouble) {
  for (const GateActivation activation : {GateActivation::kSilu, GateActivation::kSigmoid}) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      const GatedNormCase c{dtype, 3, 128, activation};
      const GatedNormResult got = GatedNorm(*GatedRmsNormKernels().back(), c, 3);
      const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t begin = 0; begin < 3 * 128; begin += 128) {
          double sum = 0;
          for (int64_t h = begin; h < begin + 128; ++h)
            sum += double{got.o.Get(t, h)} * got.o.Get(t, h);
          const double scale = 1 / std::sqrt(sum / 128 + double{1e-6f});
          for (int64_t h = begin; h < begin + 128; ++h) {
            const double z = got.z.Get(t, h);
            const double gate = (activation == GateActivation::kSilu ? z : 1) / (1 + std::exp(-z));
            const double y = got.o.Get(t, h) * scale * got.w[h - begin] * gate;
            const double bound = std::abs(y) * ((128.0 / 16 + 9 + 9) * 0x1p-24 + u);
            ASSERT_LE(std::abs(got.y.Get(t, h) - y), bound) << t << " " << h;
          }
        }
      }
    }
  }
}

TEST(GatedRmsNorm, RefusesWithTheNumber) {
  GatedRmsNormArgs a;
  a.leaves = 17;
  for (const auto* kernel : GatedRmsNormKernels()) {
    EXPECT_EQ(kernel->refuse(a), "17 leaves, not 1..16");
  }
}

}  // namespace
}  // namespace weft::kernels
