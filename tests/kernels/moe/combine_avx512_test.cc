// combine_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
#define WEFT_EMULATE_AVX512
#define kCombineAvx512 kCombineAvx512Emulated
#include "kernels/moe/combine_avx512.cc"
#undef kCombineAvx512

#include "kernels/moe/combine_case.h"

namespace weft::kernels {
namespace {

TEST(CombineAvx512, EmulatedEqualsTheContract) {
  testing::ForEachCombine([](testing::CombineCase& c) {
    const testing::Buffer expected = c.Run(*CombineKernels().back());
    ASSERT_EQ(c.Run(kCombineAvx512Emulated), expected) << c.Describe();
    const auto slices = testing::RandomSlices(kCombineAvx512Emulated.units(c.args()), c.random());
    ASSERT_EQ(c.Run(kCombineAvx512Emulated, slices), expected) << c.Describe();
  });
}

}  // namespace
}  // namespace weft::kernels
