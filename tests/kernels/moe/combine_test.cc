#include "kernels/moe/combine.h"

#include <cmath>

#include "kernels/moe/combine_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::CombineCase;
using testing::CombineShape;

const Kernel<CombineArgs>& CombineContract() { return *CombineKernels().back(); }

TEST(Combine, EveryVariantEqualsTheContract) {
  testing::ForEachCombine([](CombineCase& c) {
    const Buffer expected = c.Run(CombineContract());
    for (const auto* kernel : testing::Runnable(CombineKernels())) {
      ASSERT_EQ(c.Run(*kernel), expected) << kernel->name << ": " << c.Describe();
      const auto slices = testing::RandomSlices(kernel->units(c.args()), c.random());
      ASSERT_EQ(c.Run(*kernel, slices), expected) << kernel->name << ": " << c.Describe();
    }
  });
}

TEST(Combine, RowsMayStandInManyPlaces) {
  CombineCase c({.dtype = DType::kBF16, .tokens = 3, .cols = 300, .experts = 24, .top_k = 4});
  const Buffer expected = c.Run(CombineContract());
  std::vector<std::vector<std::byte>> rows;
  std::vector<const std::byte*> row_of;
  for (int64_t route = 0; route < 3 * 4; ++route) {
    const auto* row =
        reinterpret_cast<const std::byte*>(c.args().rows.row<const Bf16>(c.args().place[route]));
    row_of.push_back(rows.emplace_back(row, row + 300 * sizeof(Bf16)).data());
  }
  c.args().row_of = row_of.data();
  c.args().place = nullptr;
  for (const auto* kernel : testing::Runnable(CombineKernels()))
    EXPECT_EQ(c.Run(*kernel), expected) << kernel->name;
}

// A product that is flushed to -0 becomes +0 by the leaves added to it, also by those that are
// empty.
TEST(Combine, ALeafWithoutARouteIsAdded) {
  CombineCase c({.dtype = DType::kF32, .tokens = 1, .cols = 80, .experts = 16, .top_k = 1});
  c.weights()[0] = 0x1p-100f;
  for (int64_t h = 0; h < 80; ++h) c.rows().Set(0, h, -0x1p-100f);
  for (const auto* kernel : testing::Runnable(CombineKernels())) {
    const Buffer got = c.Run(*kernel);
    for (int64_t h = 0; h < 80; ++h) {
      ASSERT_FALSE(std::signbit(got.as<float>()[h])) << kernel->name;
    }
  }
  // With one leaf there is nothing to add, and the sign stays.
  CombineCase alone(
      {.dtype = DType::kF32, .tokens = 1, .cols = 80, .experts = 1, .top_k = 1, .range = {0, 1}});
  alone.weights()[0] = 0x1p-100f;
  for (int64_t h = 0; h < 80; ++h) alone.rows().Set(0, h, -0x1p-100f);
  for (const auto* kernel : testing::Runnable(CombineKernels())) {
    EXPECT_TRUE(std::signbit(alone.Run(*kernel).as<float>()[0])) << kernel->name;
  }
}

// Any cut of the leaves gives, by the tree over the roots, what one rank computes.
TEST(Combine, RootsOfTwoRanksFinishToTheWhole) {
  CombineShape shape{.dtype = DType::kBF16, .tokens = 3, .cols = 40, .experts = 48, .top_k = 8};
  CombineCase whole(shape);
  const Buffer expected = whole.Run(CombineContract());
  for (const int cut : {0, 3, 8, 13}) {
    std::vector<LeafRange> ranges;
    std::vector<const float*> roots;
    std::vector<Buffer> sides;
    for (const LeafRange range : {LeafRange{0, cut}, LeafRange{cut, 16}}) {
      if (range.empty()) continue;
      shape.range = range;
      CombineCase c(shape);
      // The same rows, as the order of this side's routes has them.
      for (int64_t i = 0; i < 3 * 8; ++i) {
        if (c.args().place[i] < 0) continue;
        for (int64_t h = 0; h < 40; ++h)
          c.rows().Set(c.args().place[i], h, whole.rows().Get(whole.args().place[i], h));
      }
      c.weights() = whole.weights();
      c.args().weights = c.weights().data();
      sides.push_back(c.Run(CombineContract()));
      for (const LeafRange root : MaximalSubtrees(16, range)) ranges.push_back(root);
    }
    const std::vector<uint8_t> merges = RootMerges(16, ranges);
    for (int64_t i = 0; i < 3 * 40; ++i) {
      std::vector<float> stack;
      size_t at = 0;
      for (const Buffer& side : sides) {
        const int64_t stride = 3 * 40 + 9;
        for (int64_t r = 0; r * stride + 9 < side.bytes() / 4; ++r, ++at) {
          stack.push_back(side.as<float>()[r * stride + i]);
          for (int m = 0; m < merges[at]; ++m) {
            stack[stack.size() - 2] += stack.back();
            stack.pop_back();
          }
        }
      }
      ASSERT_EQ(stack.size(), 1u);
      ASSERT_EQ(stack[0], expected.as<float>()[i]) << "cut at " << cut;
    }
  }
}

// k products in fma chains and a tree: a term passes at most k + 4 roundings.
TEST(Combine, ContractIsWithinItsBoundOfDouble) {
  CombineCase c({.dtype = DType::kBF16, .tokens = 3, .cols = 300, .experts = 60, .top_k = 6});
  const Buffer got = c.Run(CombineContract());
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < 300; ++h) {
      double sum = 0, size = 0;
      for (int64_t i = t * 6; i < t * 6 + 6; ++i) {
        const double term =
            double{c.weights()[static_cast<size_t>(i)]} * c.rows().Get(c.args().place[i], h);
        sum += term;
        size += std::abs(term);
      }
      ASSERT_LE(std::abs(got.as<float>()[t * 300 + h] - sum), 1.01 * (6 + 4) * 0x1p-24 * size);
    }
  }
}

// Negative control: one long chain over all routes is another sum.
TEST(Combine, LeavesAreSeenInTheBits) {
  CombineShape shape{.dtype = DType::kF32, .tokens = 4, .cols = 200, .experts = 64, .top_k = 8};
  CombineCase tree(shape);
  CombineCase chain(shape);
  const int32_t whole[2] = {0, 64};
  const uint8_t none[1] = {0};
  chain.args().leaf_begin = whole;
  chain.args().leaves = 1;
  chain.args().merges = none;
  EXPECT_FALSE(tree.Run(CombineContract()) == chain.Run(CombineContract()));
}

TEST(Combine, RefusalsNameTheNumberAndNoLeavesAreNoUnits) {
  CombineCase c({});
  CombineArgs a = c.args();
  a.top_k = 65;
  EXPECT_EQ(CombineContract().refuse(a), "top 65, not 1 to 64");
  a = c.args();
  a.leaves = 17;
  EXPECT_EQ(CombineContract().refuse(a), "17 leaves of experts, at most 16");
  a = c.args();
  a.rows.dtype = DType::kI8;
  EXPECT_EQ(CombineContract().refuse(a), "no rows in int8");
  a = c.args();
  a.leaves = 0;
  EXPECT_EQ(CombineContract().units(a), 0);
}

}  // namespace
}  // namespace weft::kernels
