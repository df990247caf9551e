// Rows, columns and sections of tensors.
#include "models/weight_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tensor/quant_format.h"

namespace weft::models {
namespace {

using Kind = HeadOrder::Kind;

template <typename Order>
std::vector<int64_t> Places(const Order& order, int64_t count) {
  std::vector<int64_t> at;
  for (int64_t i = 0; i < count; ++i) at.push_back(order.At(i));
  return at;
}

// A tensor whose elements count up, with its data.
struct Counted {
  std::vector<float> values;
  io::Tensor tensor;
  explicit Counted(std::vector<int64_t> shape) {
    values.resize(static_cast<size_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())));
    std::iota(values.begin(), values.end(), 0.0f);
    tensor = {"counted", DType::kF32, std::move(shape),
              reinterpret_cast<const std::byte*>(values.data()),
              static_cast<int64_t>(values.size() * sizeof(float))};
  }
};

WeightSource SourceOf(const Counted& c, std::vector<int64_t> shape) {
  WeightSource source;
  source.tensors = {&c.tensor};
  source.shape = std::move(shape);
  return source;
}

TEST(HeadOrder, SaysWhereAFileHasOurRow) {
  EXPECT_EQ(Places(HeadOrder{}, 3), (std::vector<int64_t>{0, 1, 2}));
  // Heads of 6: the file has (0, 3), (1, 4), (2, 5) of ours next to each other.
  EXPECT_EQ(Places(HeadOrder{.kind = Kind::kRopePairs, .width = 6}, 12),
            (std::vector<int64_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  // Two key heads of three value heads, each two wide: the file has a0 b0 a1 b1 a2 b2.
  EXPECT_EQ(Places(HeadOrder{.kind = Kind::kTiled, .width = 2, .groups = 2, .per_group = 3}, 12),
            (std::vector<int64_t>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  // The published order of 48 value heads over 16 key heads.
  const HeadOrder large{.kind = Kind::kTiled, .width = 1, .groups = 16, .per_group = 3};
  EXPECT_EQ(large.At(1), 16);
  EXPECT_EQ(large.At(2), 32);
  EXPECT_EQ(large.At(3), 1);
  EXPECT_EQ(large.At(47), 47);
}

TEST(Section, TakesAFewRowsOfEveryPeriod) {
  EXPECT_EQ(Places(Section{}, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(Places(Section{.begin = 2, .count = 2, .period = 4}, 6),
            (std::vector<int64_t>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(Places(Section{.begin = 5, .count = 3, .period = 8}, 3),
            (std::vector<int64_t>{5, 6, 7}));
}

TEST(WeightSource, OrderComesBeforeTheSection) {
  WeightSource source;
  source.order = {.kind = Kind::kTiled, .width = 1, .groups = 2, .per_group = 2};
  source.section = {.begin = 10, .count = 4, .period = 14};
  EXPECT_EQ(source.FileRow(1), 12);
  EXPECT_EQ(source.FileRow(2), 11);
}

TEST(WeightSource, RowsOfAnExpertAreInItsPartOfTheTensor) {
  const Counted c({3, 8, 5});  // per expert four rows of one param, then four of another
  WeightSource source = SourceOf(c, {3, 4, 5});
  source.expert_rows = 8;
  source.section = {.begin = 4, .count = 4, .period = 8};
  EXPECT_EQ(source.experts(), 3);
  EXPECT_EQ(source.row_bytes(), 20);
  EXPECT_EQ(source.Row(2, 1), c.tensor.data + ((2 * 8 + 5) * 5) * 4);
  EXPECT_EQ(source.Values()[static_cast<size_t>((2 * 4 + 1) * 5)], 21 * 5.0f);
  const auto extent = source.Extent(1, 1, 3);
  EXPECT_EQ(extent.data(), source.Row(1, 1));
  EXPECT_EQ(extent.size(), 60u);
}

TEST(WeightSource, ATensorAnExpertIsAsGoodAsOneForAll) {
  const Counted all({2, 4, 3}), one({4, 3});
  Counted two({4, 3});
  for (float& x : two.values) x += 12;
  WeightSource apart;
  apart.tensors = {&one.tensor, &two.tensor};
  apart.shape = {2, 4, 3};
  WeightSource together = SourceOf(all, {2, 4, 3});
  together.expert_rows = 4;
  EXPECT_EQ(apart.Values(), together.Values());
  EXPECT_EQ(apart.Row(1, 2), two.tensor.data + 2 * 12);
}

TEST(WeightSource, ExtentHoldsWhatLiesBetween) {
  const Counted c({8, 2});
  WeightSource source = SourceOf(c, {4, 2});
  source.section = {.begin = 1, .count = 1, .period = 2};
  const auto extent = source.Extent(0, 1, 2);
  EXPECT_EQ(extent.data(), c.tensor.data + 3 * 8);
  EXPECT_EQ(extent.size(), 24u) << "rows 3 to 5";
  EXPECT_TRUE(source.Extent(0, 1, 0).empty());
}

TEST(WeightSource, ColumnsMoveInWholeHeadsOfWholeBlocks) {
  const Counted c({2, 8});
  WeightSource source = SourceOf(c, {2, 8});
  EXPECT_TRUE(source.columns_in_order());
  source.columns = {.kind = Kind::kTiled, .width = 2, .groups = 2, .per_group = 2};
  EXPECT_FALSE(source.columns_in_order());
  EXPECT_EQ(source.Values(),
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));

  std::vector<float> heads(4 * 32);
  for (size_t i = 0; i < heads.size(); ++i)
    heads[i] = static_cast<float>(1 + i / 32) * (i % 32 == 0 ? 127.0f : 1.0f);
  std::vector<std::byte> blocks(static_cast<size_t>(BytesOf(DType::kQ8_0, 4 * 32)));
  QuantiseRow(DType::kQ8_0, heads.data(), 4 * 32, blocks.data());
  const io::Tensor quantised{
      "q", DType::kQ8_0, {1, 4 * 32}, blocks.data(), static_cast<int64_t>(blocks.size())};
  source.tensors = {&quantised};
  source.shape = {1, 4 * 32};
  source.columns.width = 32;
  const std::vector<float> values = source.Values();
  EXPECT_EQ((std::vector<float>{values[1], values[33], values[65], values[97]}),
            (std::vector<float>{1, 3, 2, 4}));
}

TEST(WeightSource, VectorsArePickedAndChanged) {
  const Counted c({6});
  WeightSource source = SourceOf(c, {3});
  source.section = {.begin = 1, .count = 1, .period = 2};
  EXPECT_EQ(source.Values(), (std::vector<float>{1, 3, 5}));
  source.change = ValueChange::kPlusOne;
  EXPECT_EQ(source.Values(), (std::vector<float>{2, 4, 6}));
  source.change = ValueChange::kMinusExp;
  EXPECT_EQ(source.Values(), (std::vector<float>{static_cast<float>(-std::exp(1.0)),
                                                 static_cast<float>(-std::exp(3.0)),
                                                 static_cast<float>(-std::exp(5.0))}));
}

}  // namespace
}  // namespace weft::models
