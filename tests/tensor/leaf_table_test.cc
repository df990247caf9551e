#include "tensor/leaf_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace weft {
namespace {

TEST(LeafTable, CutsAtomsEvenlyAndKeepsTheTailShort) {
  const LeafTable table = LeafTable::Make(1536, 32);
  EXPECT_EQ(table.count(), 16);
  EXPECT_EQ(table.width(0), 96);
  const LeafTable odd = LeafTable::Make(100, 32);
  EXPECT_EQ(odd.count(), 4);
  EXPECT_EQ(odd.width(3), 4);
  EXPECT_EQ(odd.size(), 100);
}

TEST(LeafTable, OwnersTileTheLeavesForEveryNumberOfRanks) {
  for (int leaves = 1; leaves <= 16; ++leaves) {
    const LeafTable table = LeafTable::Make(leaves, 1);
    for (int ranks = 1; ranks <= 16; ++ranks) {
      int next = 0;
      for (int r = 0; r < ranks; ++r) {
        const LeafRange owned = table.OwnedBy(r, ranks);
        EXPECT_EQ(owned.begin, next);
        next = owned.end;
      }
      EXPECT_EQ(next, leaves);
    }
  }
}

// Expressions instead of numbers: the string tells the order of the additions.
std::string Tree(int lo, int hi) {
  if (hi - lo == 1) return std::to_string(lo);
  const int m = TreeSplit(lo, hi);
  return "(" + Tree(lo, m) + "+" + Tree(m, hi) + ")";
}

std::string RunMerges(const std::vector<std::string>& operands, const std::vector<uint8_t>& merges,
                      std::vector<std::string>* roots = nullptr) {
  std::vector<std::string> stack;
  for (size_t i = 0; i < operands.size(); ++i) {
    stack.push_back(operands[i]);
    for (int m = 0; m < merges[i]; ++m) {
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
  }
  if (roots) *roots = stack;
  return stack.back();
}

TEST(LeafTable, EverySplitOverRanksAddsInTheOneOrder) {
  for (int leaves = 1; leaves <= 16; ++leaves) {
    const LeafTable table = LeafTable::Make(leaves, 1);
    for (int ranks = 1; ranks <= 16; ++ranks) {
      std::vector<std::string> operands;
      std::vector<LeafRange> roots;
      for (int r = 0; r < ranks; ++r) {
        const LeafRange owned = table.OwnedBy(r, ranks);
        std::vector<std::string> own;
        for (int i = owned.begin; i < owned.end; ++i) own.push_back(std::to_string(i));
        if (own.empty()) continue;
        std::vector<std::string> stack;
        RunMerges(own, TreeMerges(leaves, owned), &stack);
        const auto subtrees = MaximalSubtrees(leaves, owned);
        ASSERT_EQ(stack.size(), subtrees.size());
        for (size_t i = 0; i < stack.size(); ++i) {
          EXPECT_EQ(stack[i], Tree(subtrees[i].begin, subtrees[i].end));
        }
        operands.insert(operands.end(), stack.begin(), stack.end());
        roots.insert(roots.end(), subtrees.begin(), subtrees.end());
      }
      EXPECT_EQ(RunMerges(operands, RootMerges(leaves, roots)), Tree(0, leaves))
          << leaves << " leaves over " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace weft
