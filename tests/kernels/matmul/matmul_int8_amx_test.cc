// matmul_int8_amx.cc over emulated instructions, on any CPU: the very source, its entry renamed.
#define WEFT_EMULATE_AVX512
#define kMatmulInt8Amx kMatmulInt8AmxEmulated
#include "kernels/matmul/matmul_int8_amx.cc"
#undef kMatmulInt8Amx

#include <gtest/gtest.h>

#include "kernels/matmul/matmul_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::MatmulCase;
using testing::MatmulShape;

constexpr DType kFormats[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                              DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

TEST(MatmulInt8Amx, EmulatedEqualsTheContract) {
  for (const DType weight : kFormats) {
    int compared = 0;
    testing::ForEachShape(weight, true, [&](const MatmulShape& shape) {
      MatmulCase c(shape);
      if (shape.m < 16) {
        EXPECT_NE(kMatmulInt8AmxEmulated.refuse(c.args()), "") << shape.m << " rows";
      }
      // A refusal is for speed alone; few rows are computed all the same.
      const Buffer expected = c.Run(*MatmulKernels().back());
      ASSERT_EQ(c.Run(kMatmulInt8AmxEmulated), expected) << c.Describe();
      const auto slices = testing::RandomSlices(kMatmulInt8AmxEmulated.units(c.args()), c.random());
      ASSERT_EQ(c.Run(kMatmulInt8AmxEmulated, slices), expected) << c.Describe();
      ++compared;
    });
    EXPECT_GT(compared, 0) << NameOf(weight);
  }
}

// Tiles of 1 to 16 rows, pieces of one to eight blocks, several row blocks.
TEST(MatmulInt8Amx, EveryTileEqualsTheContract) {
  for (const DType weight : {DType::kQ8_0, DType::kQ4_1, DType::kQ6_K}) {
    for (int m : {1, 7, 8, 9, 15, 16, 17, 23, 33, 270}) {
      MatmulShape shape{.weight = weight, .int8 = true, .m = m, .n_starts = {0, 21}};
      shape.leaves =
          weight == DType::kQ6_K ? LeafTable::Make(768, 256, 3) : LeafTable::Make(352, 32, 3);
      shape.range = {0, 3};
      MatmulCase c(shape);
      ASSERT_EQ(c.Run(kMatmulInt8AmxEmulated), c.Run(*MatmulKernels().back())) << c.Describe();
    }
  }
}

TEST(MatmulInt8Amx, TheCpusOwnTilesEqualTheContract) {
  const Kernel<MatmulArgs>* native = MatmulKernels().front();
  ASSERT_EQ(native->name, "amx:int8");
  if (DetectIsa() < native->isa) GTEST_SKIP() << "no AMX here";
  for (const DType weight : kFormats) {
    for (int m : {16, 29, 270}) {
      MatmulShape shape{.weight = weight, .int8 = true, .m = m, .n_starts = {0, 40}};
      shape.leaves = LeafTable::Make(1024, 256, 2);
      shape.range = {0, 2};
      MatmulCase c(shape);
      ASSERT_EQ(c.Run(*native), c.Run(*MatmulKernels().back())) << c.Describe();
    }
  }
}

}  // namespace
}  // namespace weft::kernels
