#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "kernels/float_env.h"
#include "kernels/matmul/test_matrix.h"
#include "kernels/memory.h"
#include "kernels/quant/quantised_rows.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::RandomFloat;
using testing::RandomSlices;

struct Case {
  Case(DType dtype, int64_t rows, int64_t k) : x(rows * (k + 3) * 4) {
    args.x = {x.data(), rows, k, k + 3, dtype};
    this->rows = rows;
    this->k = k;
  }
  void Set(int64_t row, int64_t col, float value) {
    if (args.x.dtype == DType::kF32) {
      args.x.row<float>(row)[col] = value;
    } else {
      args.x.row<Bf16>(row)[col] = ToBf16(value);
    }
  }
  // The buffer has room for two rows more than are live: a guard.
  Buffer Run(const Kernel<QuantiseRowsArgs>& kernel, const std::vector<Slice>& slices) {
    const ScopedFlushDenormals environment;
    Buffer out(QuantisedRows::Bytes(rows + 2, k));
    args.out = QuantisedRows::In(out.data(), rows + 2, rows, k);
    testing::RunSlices(kernel, args, slices);
    return out;
  }
  Buffer x;
  QuantiseRowsArgs args;
  int64_t rows;
  int64_t k;
};

const Kernel<QuantiseRowsArgs>& Ref() { return *QuantiseRowsKernels().back(); }

TEST(QuantiseRows, EveryVariantEqualsTheContract) {
  std::mt19937 random(11);
  const float extremes[] = {0.0f,   -0.0f,  1e-40f, 1.4e-36f, 1.6e-36f,
                            1e-38f, 3e38f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t rows : {1, 2, 7, 40}) {
      for (const int64_t k : {32, 96, 1024}) {
        Case c(dtype, rows, k);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < k; ++i) {
            const float scale = std::ldexp(1.0f, static_cast<int>(i / 32 % 40) * 6 - 125);
            c.Set(row, i, RandomFloat(random) * scale);
          }
          c.Set(row, static_cast<int64_t>(random() % static_cast<uint64_t>(k)),
                extremes[random() % 9]);
        }
        const Buffer expected = c.Run(Ref(), {{0, rows}});
        for (const auto* kernel : QuantiseRowsKernels()) {
          if (kernel->isa > DetectIsa()) continue;
          ASSERT_EQ(c.Run(*kernel, RandomSlices(rows, random)), expected)
              << kernel->name << " rows " << rows << " k " << k;
        }
      }
    }
  }
}

TEST(QuantiseRows, IsWithinHalfAStepOfX) {
  std::mt19937 random(12);
  Case c(DType::kF32, 4, 256);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < 256; ++i) c.Set(row, i, RandomFloat(random));
  }
  const Buffer out = c.Run(Ref(), {{0, 4}});
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
  Case c(DType::kF32, 1, 96);
  for (int64_t i = 0; i < 96; ++i) c.Set(0, i, i < 32 ? 0.0f : 1.0f);
  c.Set(0, 70, std::numeric_limits<float>::quiet_NaN());
  const Buffer out = c.Run(Ref(), {{0, 1}});
  EXPECT_EQ(c.args.out.d[0], 0.0f);
  EXPECT_EQ(c.args.out.sum[0], 0);
  EXPECT_EQ(c.args.out.d[1], 1.0f / 127.0f);
  EXPECT_EQ(c.args.out.sum[1], 127 * 32);
  EXPECT_TRUE(std::isnan(c.args.out.d[2]));
}

TEST(QuantiseRows, TheBestVariantIsTaken) {
  Case c(DType::kBF16, 1, 32);
  c.args.out.k = 32;
  EXPECT_EQ(Choose(QuantiseRowsKernels(), c.args, Isa::kAvx2)->name, "avx2");
  EXPECT_EQ(Choose(QuantiseRowsKernels(), c.args, Isa::kPortable)->name, "ref");
}

}  // namespace
}  // namespace weft::kernels
