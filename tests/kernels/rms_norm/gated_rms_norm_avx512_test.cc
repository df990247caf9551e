// gated_rms_norm_avx512.cc over emulated instructions, on any CPU: the very source, its entry
// renamed. On a CPU that has them gated_rms_norm_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kGatedRmsNormAvx512 kGatedRmsNormAvx512Emulated
#include "kernels/rms_norm/gated_rms_norm_avx512.cc"
#undef kGatedRmsNormAvx512

#include "kernels/rms_norm/gated_rms_norm_case.h"

namespace weft::kernels {
namespace {

TEST(GatedRmsNormAvx512, EmulatedEqualsTheContract) {
  for (const testing::GatedNormCase& c : testing::GatedNormCases()) {
    SCOPED_TRACE(c.width);
    testing::ExpectEqual(testing::GatedNorm(kGatedRmsNormAvx512Emulated, c, 5, 3),
                         testing::GatedNorm(*GatedRmsNormKernels().back(), c, 5));
  }
}

}  // namespace
}  // namespace weft::kernels
