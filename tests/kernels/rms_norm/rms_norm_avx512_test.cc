// rms_norm_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed. On
// a CPU that has them rms_norm_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kRmsNormAvx512 kRmsNormAvx512Emulated
#include "kernels/rms_norm/rms_norm_avx512.cc"
#undef kRmsNormAvx512

#include <gtest/gtest.h>

#include "kernels/rms_norm/rms_norm_case.h"

namespace weft::kernels {
namespace {

using testing::NormResult;

TEST(RmsNormAvx512, EmulatedEqualsTheContract) {
  for (const testing::NormCase& c : testing::NormCases()) {
    const NormResult expected = testing::Norm(*RmsNormKernels().back(), c, 5);
    for (const uint32_t slices : {0u, 3u}) {
      const NormResult got = testing::Norm(kRmsNormAvx512Emulated, c, 5, slices);
      EXPECT_EQ(got.y.buffer(), expected.y.buffer()) << "width " << c.width;
      EXPECT_EQ(got.x.buffer(), expected.x.buffer()) << "width " << c.width;
      EXPECT_EQ(got.residual.buffer(), expected.residual.buffer()) << "width " << c.width;
    }
  }
}

}  // namespace
}  // namespace weft::kernels
