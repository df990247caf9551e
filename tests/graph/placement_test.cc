#include "graph/placement.h"

#include <gtest/gtest.h>

namespace weft::graph {
namespace {

TEST(Placement, PrintsOneLetterAnAxis) {
  EXPECT_EQ(ToString({}), "R");
  EXPECT_EQ(ToString({Placement::R()}), "R");
  EXPECT_EQ(ToString({Placement::S(1), Placement::P()}), "S(1),P");
  EXPECT_EQ(ToString({Placement::S(0), Placement::S(0, 1)}), "S(0),S(0:1)");
}

TEST(Placement, IsEqualOnlyInKindDimAndOrder) {
  EXPECT_EQ(Placement::S(1), Placement::S(1, 0));
  EXPECT_NE(Placement::S(1), Placement::S(0));
  EXPECT_NE(Placement::S(1), Placement::S(1, 1));
  EXPECT_NE(Placement::R(), Placement::P());
  EXPECT_TRUE(Placement::S(2).sharded_on(2) && !Placement::S(2).sharded_on(0) &&
              !Placement::R().sharded_on(0));
}

TEST(Mesh, HasAsManyRanksAsItsAxesSpan) {
  EXPECT_EQ(Mesh{}.ranks(), 1);
  EXPECT_EQ(Mesh::Tp(6).ranks(), 6);
  EXPECT_EQ((Mesh{{{"otp", 3}, {"odp", 2}}}).ranks(), 6);
}

// FlashComm2's tokens: cut by (otp, odp), after its all-to-all split over odp alone.
TEST(Cut, ARankHoldsTheChunksOfItsCoordinates) {
  const Mesh mesh{{{"otp", 3}, {"odp", 2}}};
  const Cut both = CutOf(mesh, {Placement::S(0), Placement::S(0, 1)}, 0);
  EXPECT_EQ(both.chunks, 6);
  EXPECT_EQ(both.per_rank, 1);
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(ChunksOf(mesh, both, rank), std::vector{rank});

  const Cut minor = CutOf(mesh, {Placement::R(), Placement::S(0, 1)}, 0);
  EXPECT_EQ(minor.chunks, 6);
  EXPECT_EQ(minor.per_rank, 3);
  EXPECT_FALSE(minor.contiguous);
  for (int rank = 0; rank < 6; ++rank) {
    const int odp = rank % 2;
    EXPECT_EQ(ChunksOf(mesh, minor, rank), (std::vector{odp, 2 + odp, 4 + odp}));
  }

  const Cut major = CutOf(mesh, {Placement::S(0), Placement::R()}, 0);
  EXPECT_TRUE(major.contiguous);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(ChunksOf(mesh, major, rank), std::vector{rank / 2});
}

TEST(OwnedElements, TileTheAxisInRankOrder) {
  for (const int64_t n : {64, 96, 100, 576, 1536, 49152}) {
    const std::vector<AxisTable> tables{{"t", LeafTable::Make(n, 32), -1, 0}};
    for (int ranks = 1; ranks <= 20; ++ranks) {
      int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const ElementRange own = OwnedElements(tables, 0, r, ranks);
        EXPECT_EQ(own.begin, next);
        EXPECT_GE(own.size(), 0);
        next = own.end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

// docs/numerics.md 4: nine query heads on two ranks, a kv head for three of them.
TEST(OwnedElements, AKvHeadIsOnEveryRankThatReadsIt) {
  const std::vector<AxisTable> tables{{"heads", LeafTable::Make(9 * 64, 64), -1, 0},
                                      {"kv", LeafTable::Make(3 * 64, 64, 3), 0, 3 * 64}};
  EXPECT_EQ(OwnedLeaves(tables, 0, 0, 2), (LeafRange{0, 4}));
  EXPECT_EQ(OwnedLeaves(tables, 0, 1, 2), (LeafRange{4, 9}));
  EXPECT_EQ(OwnedLeaves(tables, 1, 0, 2), (LeafRange{0, 2}));
  EXPECT_EQ(OwnedLeaves(tables, 1, 1, 2), (LeafRange{1, 3}));
}

TEST(OwnedElements, AFollowingTableServesExactlyTheLeavesThatItsOwnerReads) {
  for (const int group : {1, 2, 3, 4}) {
    for (int64_t kv_heads = 1; kv_heads <= 8; ++kv_heads) {
      const int64_t d = 16, heads = kv_heads * group;
      const std::vector<AxisTable> tables{
          {"heads", LeafTable::Make(heads * d, d), -1, 0},
          {"kv", LeafTable::Make(kv_heads * d, d, static_cast<int>(kv_heads)), 0, group * d}};
      for (int ranks = 1; ranks <= 9; ++ranks) {
        for (int r = 0; r < ranks; ++r) {
          const ElementRange q = OwnedElements(tables, 0, r, ranks),
                             kv = OwnedElements(tables, 1, r, ranks);
          if (q.size() == 0) {
            EXPECT_EQ(kv.size(), 0) << "no heads, no keys";
            continue;
          }
          EXPECT_EQ(kv.begin / d, q.begin / d / group);
          EXPECT_EQ(kv.end / d, (q.end / d - 1) / group + 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::graph
