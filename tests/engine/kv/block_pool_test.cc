#include "engine/kv/block_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace weft::engine {
namespace {

TEST(BlockPool, NeverGrantsTheZeroPage) {
  BlockPool pool(4);
  EXPECT_EQ(pool.total(), 3);
  EXPECT_EQ(pool.Grant(), 1);
  EXPECT_EQ(pool.Grant(), 2);
  EXPECT_EQ(pool.Grant(), 3);
  EXPECT_EQ(pool.Grant(), 0) << "none is free";
  EXPECT_EQ(pool.held(), 3);
}

TEST(BlockPool, KeptBlocksGoToTheTailOthersToTheHead) {
  BlockPool pool(6);
  for (int i = 0; i < 3; ++i) pool.Grant();
  pool.Release(1, /*keep=*/true);
  pool.Release(2, /*keep=*/false);
  EXPECT_EQ(pool.FreeQueue(), (std::vector<int32_t>{2, 4, 5, 1}));
}

TEST(BlockPool, AHitTakesABlockOutOfTheMiddleOfTheQueue) {
  BlockPool pool(6);
  pool.Hold(3);
  EXPECT_EQ(pool.FreeQueue(), (std::vector<int32_t>{1, 2, 4, 5}));
  pool.Hold(3);
  pool.Release(3, true);
  EXPECT_EQ(pool.references(3), 1);
  EXPECT_EQ(pool.free(), 4) << "still held once";
}

TEST(BlockPool, FreeAndHeldAlwaysAddUp) {
  BlockPool pool(40);
  Rng rng(5);
  std::vector<int32_t> held;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t what = rng.Below(3);
    if (what == 0) {
      if (const int32_t block = pool.Grant(); block != 0) held.push_back(block);
    } else if (what == 1 && !held.empty()) {
      held.push_back(held[rng.Below(held.size())]);
      pool.Hold(held.back());
    } else if (!held.empty()) {
      const size_t at = rng.Below(held.size());
      pool.Release(held[at], rng.Below(2) == 0);
      held.erase(held.begin() + static_cast<ptrdiff_t>(at));
    }
    std::vector<bool> is_held(41);
    for (int32_t block : held) is_held[block] = true;
    int32_t distinct = 0;
    for (bool b : is_held) distinct += b;
    ASSERT_EQ(pool.held(), distinct);
    ASSERT_EQ(pool.free(), pool.total() - distinct);
  }
  EXPECT_EQ(pool.FreeQueue().size(), static_cast<size_t>(pool.free()));
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockIsABugOfOurs) {
  BlockPool pool(4);
  EXPECT_DEATH(pool.Release(2, true), "nobody holds it");
}

}  // namespace
}  // namespace weft::engine
