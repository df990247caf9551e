#include "engine/kv/state_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::engine {
namespace {

TEST(StateCache, GrantsItsSlotsAndThenTheLeastRecentlyUsed) {
  StateCache cache(/*pages=*/20, /*first=*/9, /*count=*/3);
  EXPECT_EQ(cache.slots(), 3);
  EXPECT_EQ(cache.Find(5), 0);
  const int32_t a = cache.Grant(5), b = cache.Grant(6), c = cache.Grant(7);
  EXPECT_EQ(std::set<int32_t>({a, b, c}), std::set<int32_t>({9, 10, 11}));
  EXPECT_EQ(cache.used(), 3);
  EXPECT_EQ(cache.Use(5), a);
  EXPECT_EQ(cache.Grant(8), b) << "block 6 was not used since";
  EXPECT_EQ(cache.Find(6), 0);
  EXPECT_EQ(cache.Find(5), a);
  EXPECT_EQ(cache.Grant(6), c);
  EXPECT_EQ(cache.used(), 3);
}

TEST(StateCache, ForgetsWithTheBlock) {
  StateCache cache(20, 1, 2);
  const int32_t a = cache.Grant(3);
  cache.Grant(4);
  cache.Forget(3);
  cache.Forget(3);
  cache.Forget(17);
  EXPECT_EQ(cache.Find(3), 0);
  EXPECT_EQ(cache.used(), 1);
  EXPECT_EQ(cache.Grant(5), a) << "a free slot goes first";
  EXPECT_NE(cache.Find(4), 0);
}

TEST(StateCache, WithoutSlotsKeepsNothing) {
  StateCache cache(20, 5, 0);
  EXPECT_EQ(cache.Grant(3), 0);
  EXPECT_EQ(cache.Use(3), 0);
}

}  // namespace
}  // namespace weft::engine
