// causal_conv_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
// On a CPU that has them causal_conv_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kCausalConvAvx512 kCausalConvAvx512Emulated
#include "kernels/gdn/causal_conv_avx512.cc"
#undef kCausalConvAvx512

#include "kernels/gdn/causal_conv_case.h"

namespace weft::kernels {
namespace {

TEST(CausalConvAvx512, EmulatedEqualsTheContract) {
  for (const testing::ConvShape& shape : testing::ConvShapes()) {
    const auto of = [&](const Kernel<CausalConvArgs>& kernel) {
      return std::function([&] { return testing::ConvWorld(kernel, shape); });
    };
    SCOPED_TRACE(shape.channels);
    testing::ExpectEqualSteps(of(*CausalConvKernels().back()), of(kCausalConvAvx512Emulated), 3);
  }
}

}  // namespace
}  // namespace weft::kernels
