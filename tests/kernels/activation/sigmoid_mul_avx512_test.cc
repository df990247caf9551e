// sigmoid_mul_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
// On a CPU that has them sigmoid_mul_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kSigmoidMulAvx512 kSigmoidMulAvx512Emulated
#include "kernels/activation/sigmoid_mul_avx512.cc"
#undef kSigmoidMulAvx512

#include "kernels/activation/sigmoid_mul_case.h"

namespace weft::kernels {
namespace {

TEST(SigmoidMulAvx512, EmulatedEqualsTheContract) {
  for (const testing::SigmoidMulCase& c : testing::SigmoidMulCases()) {
    SCOPED_TRACE(c.cols);
    testing::ExpectEqual(testing::SigmoidMul(kSigmoidMulAvx512Emulated, c, 9, 5),
                         testing::SigmoidMul(*SigmoidMulKernels().back(), c, 9));
  }
}

}  // namespace
}  // namespace weft::kernels
