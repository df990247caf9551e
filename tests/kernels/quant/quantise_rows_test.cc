#include "kernels/quant/quantise_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::QuantiseCase;
using testing::RandomFloat;
using testing::RandomSlices;

const Kernel<QuantiseRowsArgs>& QuantiseContract() { return *QuantiseRowsKernels().back(); }

TEST(QuantiseRows, EveryVariantEqualsTheContract) {
  std::mt19937 random(11);
  testing::ForEachQuantiseCase(random, [&](QuantiseCase& c) {
    const Buffer expected = c.Run(QuantiseContract(), {{0, c.rows}});
    for (const auto* kernel : QuantiseRowsKernels()) {
      if (kernel->isa > DetectIsa()) continue;
      ASSERT_EQ(c.Run(*kernel, RandomSlices(c.rows, random)), expected)
          << kernel->name << " rows " << c.rows << " k " << c.k;
    }
  });
}

TEST(QuantiseRows, IsWithinHalfAStepOfX) {
  std::mt19937 random(12);
  QuantiseCase c(DType::kF32, 4, 256);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < 256; ++i) c.Set(row, i, RandomFloat(random));
  }
  const Buffer out = c.Run(QuantiseContract(), {{0, 4}});
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < 256; ++i) {
      const double d = c.args.out.d[row * 8 + i / 32];
      const double error = std::abs(c.args.out.q[row * 256 + i] * d - c.args.x.row<float>(row)[i]);
      // Half a step, and the roundings of d, of 127/amax and of the product.
      ASSERT_LE(error, 0.5 * d + 127.0 * d * 4.0 * 0x1p-24);
    }
  }
}

TEST(QuantiseRows, ABlockOfZerosHasNoScaleAndABlockWithNanIsNan) {
  QuantiseCase c(DType::kF32, 1, 96);
  for (int64_t i = 0; i < 96; ++i) c.Set(0, i, i < 32 ? 0.0f : 1.0f);
  c.Set(0, 70, std::numeric_limits<float>::quiet_NaN());
  const Buffer out = c.Run(QuantiseContract(), {{0, 1}});
  EXPECT_EQ(c.args.out.d[0], 0.0f);
  EXPECT_EQ(c.args.out.sum[0], 0);
  EXPECT_EQ(c.args.out.d[1], 1.0f / 127.0f);
  EXPECT_EQ(c.args.out.sum[1], 127 * 32);
  EXPECT_TRUE(std::isnan(c.args.out.d[2]));
}

TEST(QuantiseRows, TheBestVariantIsTaken) {
  QuantiseCase c(DType::kBF16, 1, 32);
  c.args.out.k = 32;
  EXPECT_EQ(Choose(QuantiseRowsKernels(), c.args, Isa::kAvx2)->name, "avx2");
  EXPECT_EQ(Choose(QuantiseRowsKernels(), c.args, Isa::kPortable)->name, "ref");
}

}  // namespace
}  // namespace weft::kernels
