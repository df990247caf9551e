#include "kernels/activation/sigmoid_mul_case.h"

namespace weft::kernels {
namespace {

using testing::SigmoidMul;
using testing::SigmoidMulCase;
using testing::SigmoidMulResult;

TEST(SigmoidMul, EveryVariantAndPartitionEqualsTheContract) {
  for (const SigmoidMulCase& c : testing::SigmoidMulCases()) {
    const SigmoidMulResult expected = SigmoidMul(*SigmoidMulKernels().back(), c, 9);
    for (const auto* kernel : testing::Runnable(SigmoidMulKernels())) {
      for (uint32_t slices : {0u, 5u}) {
        SCOPED_TRACE(std::string(kernel->name) + " " + std::to_string(c.cols));
        testing::ExpectEqual(SigmoidMul(*kernel, c, 9, slices), expected);
      }
    }
  }
}

TEST(SigmoidMul, AGateARowIsThatGateInEveryColumn) {
  const SigmoidMulResult one =
      SigmoidMul(*SigmoidMulKernels().back(), {DType::kF32, 33, true, false}, 9);
  for (int64_t t = 0; t < 9; ++t) {
    for (int64_t f = 0; f < 33; ++f) one.x.Set(t, f, one.gate.Get(t, 0));
  }
  const SigmoidMulResult all =
      SigmoidMul(*SigmoidMulKernels().back(), {DType::kF32, 33, true, false}, 9);
  const testing::Matrix y(DType::kF32, 9, 33);
  ScopedFlushDenormals flush;
  testing::RunWhole(*SigmoidMulKernels().back(), {all.x.view(), one.x.view(), y.view()});
  EXPECT_EQ(y.buffer(), all.y.buffer());
}

// The sigmoid 4 e (its test), the product e, then the rounding u.
TEST(SigmoidMul, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    for (bool one_gate : {false, true}) {
      const SigmoidMulResult got =
          SigmoidMul(*SigmoidMulKernels().back(), {dtype, 500, one_gate, false}, 3);
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t f = 0; f < 500; ++f) {
          const double gate = got.gate.Get(t, one_gate ? 0 : f);
          const double y = got.x.Get(t, f) / (1 + std::exp(-gate));
          ASSERT_LE(std::abs(got.y.Get(t, f) - y), std::abs(y) * (5 * 0x1p-24 + u) + 1e-35);
        }
      }
    }
  }
}

TEST(SigmoidMul, RefusesWithTheNumber) {
  const testing::Matrix x(DType::kBF16, 2, 8);
  const testing::Matrix gate(DType::kBF16, 2, 1);
  for (const auto* kernel : SigmoidMulKernels()) {
    EXPECT_EQ(kernel->refuse({x.view(), gate.view(), x.view()}), "the gate has 1 columns, y 8");
  }
}

}  // namespace
}  // namespace weft::kernels
