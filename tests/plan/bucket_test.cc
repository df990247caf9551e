#include "plan/bucket.h"

#include <gtest/gtest.h>

namespace weft::plan {
namespace {

TEST(Ladder, EveryRowCountIsInExactlyOneBucket) {
  for (const int32_t most : {1, 2, 15, 16, 17, 32, 33, 100, 128, 2048, 2049, 5000}) {
    const auto ladder = Ladder(Bucket::Kind::kBody, most);
    int32_t next = 1;
    for (const Bucket& b : ladder) {
      EXPECT_EQ(b.rows_min, next);
      EXPECT_GE(b.rows_max, b.rows_min);
      next = b.rows_max + 1;
    }
    EXPECT_EQ(next, most + 1);
    for (int32_t rows = 1; rows <= most; ++rows) {
      const Bucket& b = ladder[LadderIndex(ladder, rows)];
      EXPECT_TRUE(b.rows_min <= rows && rows <= b.rows_max) << rows << " of " << most;
    }
  }
}

TEST(Ladder, IsExactUpTo16AndDoublesAfter) {
  const auto ladder = Ladder(Bucket::Kind::kHead, 100);
  ASSERT_EQ(ladder.size(), 19u);
  EXPECT_EQ(ToString(ladder[15]), "head:16:greedy");
  EXPECT_EQ(ToString(ladder[16]), "head:17-32:greedy");
  EXPECT_EQ(ToString(ladder[18]), "head:65-100:greedy");
}

TEST(Ladder, ACutSplitsTheBucketThatLiesOverIt) {
  const int32_t cuts[] = {1, 17, 1000, 1001, 5000};
  const auto ladder = Ladder(Bucket::Kind::kBody, 2048, cuts);
  std::vector<std::pair<int32_t, int32_t>> large;
  for (const Bucket& b : ladder) {
    if (b.rows_min > 256) large.push_back({b.rows_min, b.rows_max});
  }
  const std::vector<std::pair<int32_t, int32_t>> expected{
      {257, 512}, {513, 999}, {1000, 1000}, {1001, 1024}, {1025, 2048}};
  EXPECT_EQ(large, expected);
  EXPECT_EQ(ladder.size(), Ladder(Bucket::Kind::kBody, 2048).size() + 2);
  for (int32_t rows = 1; rows <= 2048; ++rows) {
    const Bucket& b = ladder[LadderIndex(ladder, rows)];
    EXPECT_TRUE(b.rows_min <= rows && rows <= b.rows_max) << rows;
  }
}

TEST(Bucket, SaysItsKindAndMode) {
  EXPECT_EQ(ToString({Bucket::Kind::kBody, 1, 1, HeadMode::kGreedy, false}), "body:1");
  EXPECT_EQ(ToString({Bucket::Kind::kHead, 4, 4, HeadMode::kSample, true}), "head:4:sample:hash");
}

}  // namespace
}  // namespace weft::plan
