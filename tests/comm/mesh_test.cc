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

// Ranks first, first + stride, ..., count of them.
std::vector<int> Stride(int first, int stride, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

// The group table of spec/communication.md 3.2, row by row.
TEST(Mesh, HasFlashComm2sGroups) {
  struct Row {
    int ranks, otp;
    Groups otp_groups, odp_groups;
  };
  const Row rows[] = {
      {4, 2, {{0, 2}, {1, 3}}, {{0, 1}, {2, 3}}},
      {8, 2, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, {{0, 1, 2, 3}, {4, 5, 6, 7}}},
      {16,
       2,
       {{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}},
       {Stride(0, 1, 8), Stride(8, 1, 8)}},
      // Size 1: nobody to reduce with, and the all-to-all is among all ranks.
      {4, 1, {{0}, {1}, {2}, {3}}, {{0, 1, 2, 3}}},
      {8, 4, {{0, 2, 4, 6}, {1, 3, 5, 7}}, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
      {6, 3, {{0, 2, 4}, {1, 3, 5}}, {{0, 1}, {2, 3}, {4, 5}}},
      {6, 2, {{0, 3}, {1, 4}, {2, 5}}, {{0, 1, 2}, {3, 4, 5}}},
  };
  for (const Row& row : rows) {
    const Mesh mesh = Make(row.ranks, row.otp);
    EXPECT_EQ(mesh.Groups(kOtp), row.otp_groups) << mesh.Describe();
    EXPECT_EQ(mesh.Groups(kOdp), row.odp_groups) << mesh.Describe();
  }
  // Its text: group i of otp is i, i + Q, ...; group j of odp is j Q, j Q + 1, ...; rank i + j Q is
  // the j-th of otp and the i-th of odp.
  for (auto [ranks, otp] :
       {std::pair{4, 2}, {8, 2}, {8, 4}, {16, 2}, {6, 3}, {6, 2}, {12, 4}, {16, 1}}) {
    const Mesh mesh = Make(ranks, otp);
    const int odp = ranks / otp;
    for (int i = 0; i < odp; ++i)
      EXPECT_EQ(mesh.Groups(kOtp)[i], Stride(i, odp, otp)) << mesh.Describe();
    for (int j = 0; j < otp; ++j)
      EXPECT_EQ(mesh.Groups(kOdp)[j], Stride(j * odp, 1, odp)) << mesh.Describe();
    for (int i = 0; i < odp; ++i) {
      for (int j = 0; j < otp; ++j) {
        EXPECT_EQ(mesh.PlaceOf(i + j * odp, kOtp), j);
        EXPECT_EQ(mesh.PlaceOf(i + j * odp, kOdp), i);
      }
    }
  }
}

// Acceptance facts of upstream's tests, by their rows in spec/communication.md 7: the global rank
// from the replica and the rank inside it. Replicas are one more axis, in front of pipeline,
// context and tensor.
TEST(Mesh, Row26TheGlobalRankFollowsFromTheAxes) {
  struct Row {
    std::vector<Axis> inner;  // of one replica
    int replica, local, global;
  };
  for (const Row& row : {Row{{{"tp", 4}}, 1, 2, 6}, Row{{{"pp", 2}, {"tp", 2}}, 1, 1, 5},
                         Row{{{"pp", 2}, {"pcp", 2}, {"tp", 2}}, 1, 3, 11}}) {
    const Mesh inner = std::move(Mesh::Make(row.inner).value());
    std::vector<Axis> axes{{"dp", 2}};
    axes.insert(axes.end(), row.inner.begin(), row.inner.end());
    const Mesh world = std::move(Mesh::Make(axes).value());
    std::vector<int> at{row.replica};
    for (size_t axis = 0; axis < row.inner.size(); ++axis)
      at.push_back(inner.CoordinateOf(row.local, static_cast<int>(axis)));
    EXPECT_EQ(world.RankAt(at), row.global) << world.Describe();
    // A rank that is global already stays what it is.
    for (size_t axis = 0; axis < axes.size(); ++axis)
      at[axis] = world.CoordinateOf(row.global, static_cast<int>(axis));
    EXPECT_EQ(world.RankAt(at), row.global) << world.Describe();
  }
}

// Six rows on two ranks: rank 1 keeps rows 3 to 5. Replicated values are sliced so, never
// reduce-scattered.
TEST(OwnedBegin, Row38TheSecondOfTwoRanksOwnsTheSecondHalf) {
  EXPECT_EQ(OwnedBegin(6, 1, 2), 3);
  EXPECT_EQ(OwnedBegin(6, 2, 2), 6);
}

// 16 ranks, size 2: the docstring's ids [[0, 8], ..., [7, 15]].
TEST(Mesh, Row59ReorganisedBatchIds) {
  const Mesh mesh = Make(16, 2);
  for (int odp = 0; odp < 8; ++odp)
    EXPECT_EQ(mesh.ChunksOf(odp, kOrder, kOdp), (std::vector<int>{odp, odp + 8}));
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
  // Numerically the table of otp groups (3.3, step 2).
  for (auto [ranks, otp] : {std::pair{8, 2}, {8, 4}, {16, 2}, {6, 3}, {6, 2}})
    EXPECT_EQ(ids(ranks, otp), Make(ranks, otp).Groups(kOtp));
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
  EXPECT_EQ(three.CountOf(0), 2);                                      // 0-4, 4
  EXPECT_EQ(three.CountOf(1), 3);                                      // 5, 6-8, 8-10
  EXPECT_EQ(three.CountOf(2), 2);                                      // 10-12, 12-16
  const RootLayout sparse = MakeRootLayout(LeafTable::Make(2, 1), 4);
  EXPECT_EQ(sparse.firsts, (std::vector<int>{0, 0, 1, 1, 2}));
  EXPECT_EQ(sparse.root_ranks, (std::vector<int32_t>{1, 3}));
}

}  // namespace
}  // namespace weft::comm
