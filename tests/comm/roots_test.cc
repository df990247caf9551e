#include "comm/roots.h"

#include <gtest/gtest.h>

namespace weft::comm {
namespace {

// Every split of the leaves into contiguous ranges of up to four members, some empty.
template <typename Visit>
void ForSplits(int leaves, int members, const Visit& visit, std::vector<LeafRange> owned = {},
               int begin = 0) {
  if (static_cast<int>(owned.size()) + 1 == members) {
    owned.push_back({begin, leaves});
    visit(owned);
    return;
  }
  for (int end = begin; end <= leaves; ++end) {
    auto next = owned;
    next.push_back({begin, end});
    ForSplits(leaves, members, visit, next, end);
  }
}

TEST(Roots, TileTheLeavesInOrderAndStayWithTheirMember) {
  for (int leaves = 1; leaves <= 9; ++leaves) {
    ForSplits(leaves, 4, [&](const std::vector<LeafRange>& owned) {
      const RootLayout layout = MakeRootLayout(leaves, owned);
      ASSERT_EQ(layout.firsts.size(), owned.size() + 1);
      ASSERT_EQ(layout.firsts.back(), layout.count());
      int next = 0;
      for (int member = 0; member < static_cast<int>(owned.size()); ++member) {
        const LeafRange& range = owned[static_cast<size_t>(member)];
        EXPECT_EQ(layout.CountOf(member) == 0, range.begin == range.end);
        for (int r = layout.firsts[static_cast<size_t>(member)];
             r < layout.firsts[static_cast<size_t>(member) + 1]; ++r) {
          const LeafRange& root = layout.roots[static_cast<size_t>(r)];
          EXPECT_EQ(root.begin, next);
          EXPECT_LT(root.begin, root.end);
          EXPECT_GE(root.begin, range.begin);
          EXPECT_LE(root.end, range.end);
          EXPECT_EQ(layout.root_ranks[static_cast<size_t>(r)], member);
          next = root.end;
        }
      }
      EXPECT_EQ(next, leaves);
    });
  }
}

TEST(Roots, OneMemberHoldsTheOneRoot) {
  const LeafRange all[] = {{0, 7}};
  const RootLayout layout = MakeRootLayout(7, all);
  ASSERT_EQ(layout.count(), 1);
  EXPECT_EQ(layout.roots[0].end, 7);
}

TEST(Roots, ATableGivesTheSameAsItsRanges) {
  const LeafTable table = LeafTable::Make(1536, 64);
  for (int members = 1; members <= 8; ++members) {
    std::vector<LeafRange> owned;
    for (int i = 0; i < members; ++i) owned.push_back(table.OwnedBy(i, members));
    const RootLayout a = MakeRootLayout(table, members), b = MakeRootLayout(table.count(), owned);
    EXPECT_EQ(a.firsts, b.firsts);
    EXPECT_EQ(a.merges, b.merges);
  }
}

}  // namespace
}  // namespace weft::comm
