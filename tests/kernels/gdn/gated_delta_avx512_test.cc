// gated_delta_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
// On a CPU that has them gated_delta_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kGatedDeltaAvx512 kGatedDeltaAvx512Emulated
#include "kernels/gdn/gated_delta_avx512.cc"
#undef kGatedDeltaAvx512

#include "kernels/gdn/gated_delta_case.h"

namespace weft::kernels {
namespace {

TEST(GatedDeltaAvx512, EmulatedEqualsTheContract) {
  for (const testing::DeltaShape& shape : testing::DeltaShapes()) {
    const auto of = [&](const Kernel<GatedDeltaArgs>& kernel) {
      return std::function([&] { return testing::DeltaWorld(kernel, shape); });
    };
    SCOPED_TRACE(::testing::PrintToString(shape));
    testing::ExpectEqualSteps(of(*GatedDeltaKernels().back()), of(kGatedDeltaAvx512Emulated), 3);
  }
}

}  // namespace
}  // namespace weft::kernels
