#include "kernels/activation/activation_case.h"

namespace weft::kernels {
namespace {

using testing::ActivationResult;
using testing::Apply;

template <typename Args>
void ExpectVariantsEqual(std::span<const Kernel<Args>* const> list) {
  testing::ForEachActivation([&](DType dtype, int64_t cols, bool in_place) {
    const ActivationResult expected = Apply(*list.back(), dtype, 4, cols, in_place, 0);
    for (const auto* kernel : testing::Runnable(list)) {
      for (uint32_t slices : {0u, 5u}) {
        const ActivationResult got = Apply(*kernel, dtype, 4, cols, in_place, slices);
        EXPECT_EQ(got.y.buffer(), expected.y.buffer()) << kernel->name << " " << cols;
        EXPECT_EQ(got.left.buffer(), expected.left.buffer()) << kernel->name << " " << cols;
      }
    }
  });
}

TEST(SiluMul, EveryVariantAndPartitionEqualsTheContract) { ExpectVariantsEqual(SiluMulKernels()); }
TEST(Add, EveryVariantAndPartitionEqualsTheContract) { ExpectVariantsEqual(AddKernels()); }

// exp 1 ulp (2 e), sum, quotient and product half an ulp each, then the rounding u. Where 1 + exp
// overflows the quotient is 0 and the exact value below 1e-36.
TEST(SiluMul, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    const ActivationResult got = Apply(*SiluMulKernels().back(), dtype, 3, 500, false, 0);
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
