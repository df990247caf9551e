#include "comm/mesh.h"

#include <gtest/gtest.h>

#include "comm/roots.h"

namespace weft::comm {
namespace {

using Groups = std::vector<std::vector<int>>;

Mesh Make(int ranks, int otp) {
  Result<Mesh> mesh = Mesh::OtpOdp(ranks, otp);
  EXPECT_TRUE(mesh.ok());
  return std::move(mesh.value());
}

const std::vector<int> kOtp{0}, kOdp{1}, kOrder{0, 1};

// The group table of spec/communication.md 3.2, row by row.
TEST(Mesh, HasFlashComm2sGroups) {
  struct Row {
    int ranks, otp;
    Groups otp_groups, odp_groups;
  };
  const Row rows[] = {
      {4, 2, {{0, 2}, {1, 3}}, {{0, 1}, {2, 3}}},
      {8, 2, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, {{0, 1, 2, 3}, {4, 5, 6, 7}}},
      {8, 4, {{0, 2, 4, 6}, {1, 3, 5, 7}}, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
      {6, 3, {{0, 2, 4}, {1, 3, 5}}, {{0, 1}, {2, 3}, {4, 5}}},
      {6, 2, {{0, 3}, {1, 4}, {2, 5}}, {{0, 1, 2}, {3, 4, 5}}},
  };
  for (const Row& row : rows) {
    const Mesh mesh = Make(row.ranks, row.otp);
    EXPECT_EQ(mesh.Groups(kOtp), row.otp_groups) << mesh.Describe();
    EXPECT_EQ(mesh.Groups(kOdp), row.odp_groups) << mesh.Describe();
  }
  EXPECT_EQ(Make(16, 2).Groups(kOtp)[3], (std::vector<int>{3, 11}));
}

// What upstream calls the reorganised batch ids follows from the order (otp, odp) alone.
TEST(Mesh, BatchIdsFollowFromTheOrderOfTheAxes) {
  const auto ids = [](int ranks, int otp) {
    const Mesh mesh = Make(ranks, otp);
    Groups out;
    for (int odp = 0; odp < ranks / otp; ++odp) {
      out.push_back(mesh.ChunksOf(odp, kOrder, kOdp));
      // The other members of the otp group hold the same chunks: that is what they will reduce.
      for (int rank : mesh.GroupOf(odp, kOtp)) {
        EXPECT_EQ(mesh.ChunksOf(rank, kOrder, kOdp), out.back());
      }
    }
    return out;
  };
  EXPECT_EQ(ids(4, 2), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(ids(16, 2)[0], (std::vector<int>{0, 8}));
  EXPECT_EQ(ids(16, 2)[7], (std::vector<int>{7, 15}));
}

TEST(Mesh, FullySplitTokensAreFlashComm1sLayout) {
  for (auto [ranks, otp] : {std::pair{4, 2}, {8, 4}, {6, 3}, {12, 4}, {5, 1}, {5, 5}}) {
    const Mesh mesh = Make(ranks, otp);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(mesh.PlaceOf(rank, kOrder), rank);
      EXPECT_EQ(mesh.ChunksOf(rank, kOrder, kOrder), std::vector<int>{rank});
      EXPECT_EQ(static_cast<int>(mesh.ChunksOf(rank, kOrder, {}).size()), ranks);
      const int coordinates[] = {mesh.CoordinateOf(rank, 0), mesh.CoordinateOf(rank, 1)};
      EXPECT_EQ(mesh.RankAt(coordinates), rank);
    }
  }
}

TEST(Mesh, RefusesWhatIsNoGrid) {
  EXPECT_FALSE(Mesh::Make({}).ok());
  EXPECT_FALSE(Mesh::Make({{"tp", 0}}).ok());
  EXPECT_FALSE(Mesh::Make({{"tp", 2}, {"tp", 2}}).ok());
  EXPECT_NE(Mesh::OtpOdp(8, 3).status().message().find("3 does not divide 8"), std::string::npos);
}

TEST(OwnedBegin, TilesTheRowsForEveryNumberOfRanks) {
  for (int64_t rows : {0, 1, 5, 13, 16}) {
    for (int n = 1; n <= 16; ++n) {
      EXPECT_EQ(OwnedBegin(rows, 0, n), 0);
      EXPECT_EQ(OwnedBegin(rows, n, n), rows);
      for (int i = 0; i < n; ++i) {
        const int64_t size = OwnedBegin(rows, i + 1, n) - OwnedBegin(rows, i, n);
        EXPECT_GE(size, rows / n);
        EXPECT_LE(size, rows / n + 1);
      }
    }
  }
}

TEST(RootLayout, OneRootIfAlignedElseAFewAndNoneForAnEmptyRank) {
  EXPECT_EQ(MakeRootLayout(LeafTable::Make(16, 1), 4).count(), 4);
  const RootLayout three = MakeRootLayout(LeafTable::Make(16, 1), 3);  // 0-5, 5-10, 10-16
  EXPECT_EQ(three.CountOf(0), 2);  // 0-4, 4
  EXPECT_EQ(three.CountOf(1), 3);  // 5, 6-8, 8-10
  EXPECT_EQ(three.CountOf(2), 2);  // 10-12, 12-16
  const RootLayout sparse = MakeRootLayout(LeafTable::Make(2, 1), 4);
  EXPECT_EQ(sparse.firsts, (std::vector<int>{0, 0, 1, 1, 2}));
  EXPECT_EQ(sparse.root_ranks, (std::vector<int32_t>{1, 3}));
}

}  // namespace
}  // namespace weft::comm
