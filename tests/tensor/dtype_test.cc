#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {
namespace {

constexpr DType kAll[] = {DType::kF32,  DType::kBF16, DType::kF16,  DType::kI32,
                          DType::kI64,  DType::kI8,   DType::kU8,   DType::kBool,
                          DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                          DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

TEST(DType, EveryTypeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (DType dtype : kAll) names.insert(NameOf(dtype));
  EXPECT_EQ(names.size(), std::size(kAll));
}

TEST(DType, PlainTypesAreOneElementABlock) {
  for (DType dtype : kAll) {
    if (IsQuantised(dtype)) continue;
    EXPECT_EQ(FactsOf(dtype).block_elements, 1) << NameOf(dtype);
    EXPECT_FALSE(FactsOf(dtype).has_min) << NameOf(dtype);
  }
  EXPECT_EQ(BytesOf(DType::kF32, 7), 28);
  EXPECT_EQ(BytesOf(DType::kBF16, 7), 14);
  EXPECT_EQ(BytesOf(DType::kI64, 7), 56);
}

// Bits of the integers, plus what the block's scales take: the layouts of docs/numerics.md 8.
TEST(DType, BlocksHoldTheirBitsAndTheirScales) {
  const auto bytes = [](int bits, int elements, int scale_bytes) {
    return bits * elements / 8 + scale_bytes;
  };
  EXPECT_EQ(FactsOf(DType::kQ4_0).block_bytes, bytes(4, 32, 2));
  EXPECT_EQ(FactsOf(DType::kQ4_1).block_bytes, bytes(4, 32, 4));
  EXPECT_EQ(FactsOf(DType::kQ5_0).block_bytes, bytes(5, 32, 2));
  EXPECT_EQ(FactsOf(DType::kQ5_1).block_bytes, bytes(5, 32, 4));
  EXPECT_EQ(FactsOf(DType::kQ8_0).block_bytes, bytes(8, 32, 2));
  EXPECT_EQ(FactsOf(DType::kQ4_K).block_bytes, bytes(4, 256, 4 + 12));
  EXPECT_EQ(FactsOf(DType::kQ5_K).block_bytes, bytes(5, 256, 4 + 12));
  EXPECT_EQ(FactsOf(DType::kQ6_K).block_bytes, bytes(6, 256, 2 + 16));
}

TEST(DType, ScalesDivideTheirBlock) {
  for (DType dtype : kAll)
    EXPECT_EQ(FactsOf(dtype).block_elements % FactsOf(dtype).scale_elements, 0) << NameOf(dtype);
  EXPECT_EQ(BytesOf(DType::kQ4_1, 576), 576 / 32 * 20);
}

}  // namespace
}  // namespace weft
