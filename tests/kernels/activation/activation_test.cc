#include "kernels/activation/silu_mul.h"

#include <cmath>

#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

struct Result {
  Matrix left, right, y;
};

template <typename Args>
Result Apply(const Kernel<Args>& kernel, DType dtype, int64_t rows, int64_t cols, bool in_place,
             uint32_t slices) {
  ScopedFlushDenormals flush;
  Result out{Matrix(dtype, rows, cols), Matrix(dtype, rows, cols), Matrix(dtype, rows, cols)};
  out.left.Fill(1, 20);
  out.right.Fill(2, 3);
  // Ends of silu: large, tiny, infinite, zero.
  const float special[] = {0.0f, -0.0f, 88.0f, -88.0f, 1e30f, -1e30f, 1e-38f, INFINITY};
  for (int64_t c = 0; c < std::min<int64_t>(cols, 8); ++c) out.left.Set(0, c, special[c]);
  const View y = in_place ? out.left.view() : out.y.view();
  const Args a{out.left.view(), out.right.view(), y};
  EXPECT_EQ(kernel.refuse(a), "");
  std::mt19937 random(slices);
  slices == 0 ? testing::RunWhole(kernel, a)
              : testing::RunSlices(kernel, a, testing::RandomSlices(kernel.units(a), random));
  return out;
}

template <typename Args>
void ExpectVariantsEqual(std::span<const Kernel<Args>* const> list) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t cols : {1, 7, 8, 24, 100, 1536}) {
      for (bool in_place : {false, true}) {
        const Result expected = Apply(*list.back(), dtype, 4, cols, in_place, 0);
        for (const auto* kernel : testing::Runnable(list)) {
          for (uint32_t slices : {0u, 5u}) {
            const Result got = Apply(*kernel, dtype, 4, cols, in_place, slices);
            EXPECT_EQ(got.y.buffer(), expected.y.buffer()) << kernel->name << " " << cols;
            EXPECT_EQ(got.left.buffer(), expected.left.buffer()) << kernel->name << " " << cols;
          }
        }
      }
    }
  }
}

TEST(SiluMul, EveryVariantAndPartitionEqualsTheContract) { ExpectVariantsEqual(SiluMulKernels()); }
TEST(Add, EveryVariantAndPartitionEqualsTheContract) { ExpectVariantsEqual(AddKernels()); }

// exp 1 ulp (2 e), sum, quotient and product half an ulp each, then the rounding u. Where 1 + exp
// overflows the quotient is 0 and the exact value below 1e-36.
TEST(SiluMul, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    const Result got = Apply(*SiluMulKernels().back(), dtype, 3, 500, false, 0);
    for (int64_t t = 1; t < 3; ++t) {
      for (int64_t c = 0; c < 500; ++c) {
        const double x = got.left.Get(t, c);
        const double y = x / (1 + std::exp(-x)) * got.right.Get(t, c);
        ASSERT_LE(std::abs(got.y.Get(t, c) - y), std::abs(y) * (5 * 0x1p-24 + u) + 1e-35);
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels
