// matmul_bf16_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
#define WEFT_EMULATE_AVX512
#define kMatmulBf16Avx512 kMatmulBf16Avx512Emulated
#include "kernels/matmul/matmul_bf16_avx512.cc"
#undef kMatmulBf16Avx512

#include <gtest/gtest.h>

#include "kernels/matmul/matmul_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::MatmulCase;
using testing::MatmulShape;

TEST(MatmulBf16Avx512, EmulatedEqualsTheContract) {
  int compared = 0;
  testing::ForEachShape(DType::kBF16, false, [&](MatmulShape shape) {
    shape.x = DType::kBF16;
    MatmulCase c(shape);
    ASSERT_EQ(kMatmulBf16Avx512Emulated.refuse(c.args()), "");
    const Buffer expected = c.Run(*MatmulKernels().back());
    ASSERT_EQ(c.Run(kMatmulBf16Avx512Emulated), expected) << c.Describe();
    const auto slices =
        testing::RandomSlices(kMatmulBf16Avx512Emulated.units(c.args()), c.random());
    ASSERT_EQ(c.Run(kMatmulBf16Avx512Emulated, slices), expected) << c.Describe();
    ++compared;
  });
  EXPECT_EQ(compared, 48);
}

TEST(MatmulBf16Avx512, LongLeavesAndManyRowsEqualTheContract) {
  MatmulShape shape{.weight = DType::kBF16, .m = 131, .n_starts = {0, 84}};
  shape.leaves = LeafTable::Make(2560, 256, 2);
  shape.range = {0, 2};
  MatmulCase c(shape);
  EXPECT_EQ(c.Run(kMatmulBf16Avx512Emulated), c.Run(*MatmulKernels().back())) << c.Describe();
}

TEST(MatmulBf16Avx512, LeavesFloat32RowsToOthers) {
  MatmulCase c(MatmulShape{.x = DType::kF32});
  EXPECT_EQ(kMatmulBf16Avx512Emulated.refuse(c.args()), "rows in float32");
}

}  // namespace
}  // namespace weft::kernels
