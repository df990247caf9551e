// matmul_int8_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
#define WEFT_EMULATE_AVX512
#define kMatmulInt8Avx512 kMatmulInt8Avx512Emulated
#include "kernels/matmul/matmul_int8_avx512.cc"
#undef kMatmulInt8Avx512

#include <gtest/gtest.h>

#include "kernels/matmul/matmul_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::MatmulCase;
using testing::MatmulShape;

TEST(MatmulInt8Avx512, EmulatedEqualsTheContract) {
  int compared = 0;
  for (const DType weight : testing::kBlockTypes) {
    testing::ForEachShape(weight, true, [&](const MatmulShape& shape) {
      MatmulCase c(shape);
      ASSERT_EQ(kMatmulInt8Avx512Emulated.refuse(c.args()), "");
      const Buffer expected = c.Run(*MatmulKernels().back());
      ASSERT_EQ(c.Run(kMatmulInt8Avx512Emulated), expected) << c.Describe();
      ++compared;
    });
  }
  EXPECT_EQ(compared, 8 * 48);
}

TEST(MatmulInt8Avx512, LongLeavesAndManyRowsEqualTheContract) {
  for (const DType weight : {DType::kQ8_0, DType::kQ6_K, DType::kQ4_K}) {
    MatmulShape shape{.weight = weight, .int8 = true, .m = 131, .n_starts = {0, 20}};
    shape.leaves = LeafTable::Make(2560, 256, 2);
    shape.range = {0, 2};
    MatmulCase c(shape);
    EXPECT_EQ(c.Run(kMatmulInt8Avx512Emulated), c.Run(*MatmulKernels().back())) << c.Describe();
  }
}

}  // namespace
}  // namespace weft::kernels
