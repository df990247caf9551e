// activation_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
// On a CPU that has them activation_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kSiluMulAvx512 kSiluMulAvx512Emulated
#include "kernels/activation/activation_avx512.cc"
#undef kSiluMulAvx512

#include "kernels/activation/activation_case.h"

namespace weft::kernels {
namespace {

TEST(SiluMulAvx512, EmulatedEqualsTheContract) {
  testing::ForEachActivation([](DType dtype, int64_t cols, bool in_place) {
    const testing::ActivationResult expected =
        testing::Apply(*SiluMulKernels().back(), dtype, 4, cols, in_place, 0);
    const testing::ActivationResult got =
        testing::Apply(kSiluMulAvx512Emulated, dtype, 4, cols, in_place, 5);
    EXPECT_EQ(got.y.buffer(), expected.y.buffer()) << cols;
    EXPECT_EQ(got.left.buffer(), expected.left.buffer()) << cols;
  });
}

}  // namespace
}  // namespace weft::kernels
