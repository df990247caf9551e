// matmul_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
#define WEFT_EMULATE_AVX512
#define kMatmulAvx512 kMatmulAvx512Emulated
#include "kernels/matmul/matmul_avx512.cc"
#undef kMatmulAvx512

#include <gtest/gtest.h>

#include "kernels/matmul/matmul_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::MatmulCase;
using testing::MatmulShape;

TEST(MatmulAvx512, EmulatedEqualsTheContract) {
  for (const DType weight : {DType::kBF16, DType::kF16, DType::kF32}) {
    int compared = 0;
    testing::ForEachShape(weight, false, [&](MatmulShape shape) {
      MatmulCase c(shape);
      ASSERT_EQ(kMatmulAvx512Emulated.refuse(c.args()), "");
      const Buffer expected = c.Run(*MatmulKernels().back());
      ASSERT_EQ(c.Run(kMatmulAvx512Emulated), expected) << c.Describe();
      const auto slices = testing::RandomSlices(kMatmulAvx512Emulated.units(c.args()), c.random());
      ASSERT_EQ(c.Run(kMatmulAvx512Emulated, slices), expected) << c.Describe();
      ++compared;
    });
    EXPECT_GT(compared, 0) << NameOf(weight);
  }
}

// Blocks of 60 rows end in a tile of 1 to 12, beside 1 or 2 panels.
TEST(MatmulAvx512, EveryTileEqualsTheContract) {
  for (int m = 1; m <= 73; m += m < 30 ? 1 : 7) {
    MatmulShape shape{.weight = DType::kBF16, .m = m, .n_starts = {0, 84}};
    shape.leaves = LeafTable::Make(1056, 96, 2);
    shape.range = {0, 2};
    MatmulCase c(shape);
    ASSERT_EQ(c.Run(kMatmulAvx512Emulated), c.Run(*MatmulKernels().back())) << c.Describe();
  }
}

TEST(MatmulAvx512, LeavesBlockFormatsToOthers) {
  MatmulCase c(MatmulShape{.weight = DType::kQ8_0});
  EXPECT_NE(kMatmulAvx512Emulated.refuse(c.args()), "");
}

}  // namespace
}  // namespace weft::kernels
