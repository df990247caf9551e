#include "engine/kv/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft::engine {
namespace {

std::vector<int32_t> Count(int32_t first, int32_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Admits as the scheduler does, computes all, publishes.
void Compute(KvCache* cache, const std::vector<int32_t>& tokens, BlockTable* table) {
  const auto n = static_cast<int32_t>(tokens.size());
  const KvCache::Match match = cache->Find(tokens, n - 1, "", table);
  cache->Take(match, table);
  ASSERT_TRUE(cache->Reserve(n, table));
  cache->Publish(tokens, n, "", table);
}

// The table of vLLM's test_prefix_caching.py::test_prefill: 11 blocks of 16, the first is null.
TEST(KvCache, SharesPrefixesAndEvictsTheTailsFirst) {
  KvCache cache({.pages = 11, .page_tokens = 16});
  const std::vector<int32_t> first = Count(0, 55);
  std::vector<int32_t> second = Count(0, 48);
  for (int32_t id : Count(200, 5)) second.push_back(id);
  BlockTable a, b;
  Compute(&cache, first, &a);
  EXPECT_EQ(a.blocks, (std::vector<int32_t>{1, 2, 3, 4}));
  Compute(&cache, second, &b);
  EXPECT_EQ(b.blocks, (std::vector<int32_t>{1, 2, 3, 5}));
  for (int32_t block : {1, 2, 3}) EXPECT_EQ(cache.pool().references(block), 2);
  EXPECT_EQ(cache.pool().free(), 5);
  cache.Release(&a);
  cache.Release(&b);
  EXPECT_EQ(cache.pool().FreeQueue(), (std::vector<int32_t>{5, 4, 6, 7, 8, 9, 10, 3, 2, 1}));

  std::vector<int32_t> third = Count(0, 48);
  for (int32_t id : Count(300, 5)) third.push_back(id);
  BlockTable c;
  Compute(&cache, third, &c);
  EXPECT_EQ(c.blocks, (std::vector<int32_t>{1, 2, 3, 5}));
  cache.Release(&c);

  const std::vector<int32_t> queue = cache.pool().FreeQueue();
  BlockTable stranger;
  Compute(&cache, Count(500, 160), &stranger);
  EXPECT_EQ(stranger.blocks, queue) << "in the order of the queue, all ten";
  cache.Release(&stranger);
  BlockTable d;
  EXPECT_EQ(cache.Find(first, 54, "", &d).blocks, 0) << "all was evicted";
}

TEST(KvCache, TheLastTokenIsNeverAHit) {
  KvCache cache({.pages = 11, .page_tokens = 16});
  BlockTable a, b;
  Compute(&cache, Count(0, 32), &a);
  EXPECT_EQ(cache.Find(Count(0, 32), 31, "", &b).blocks, 1);
}

TEST(KvCache, ReserveIsAllOrNothing) {
  KvCache cache({.pages = 4, .page_tokens = 4});
  BlockTable a, b;
  ASSERT_TRUE(cache.Reserve(8, &a));
  EXPECT_FALSE(cache.Reserve(8, &b));
  EXPECT_TRUE(b.blocks.empty());
  EXPECT_EQ(cache.pool().free(), 1);
}

TEST(KvCache, EqualBlocksBecomeOne) {
  KvCache cache({.pages = 9, .page_tokens = 4});
  BlockTable a, b;
  const std::vector<int32_t> tokens = Count(0, 9);
  ASSERT_TRUE(cache.Reserve(9, &a) && cache.Reserve(9, &b));
  cache.Publish(tokens, 9, "", &a);
  const uint64_t generation = b.generation;
  cache.Publish(tokens, 9, "", &b);
  EXPECT_EQ(b.blocks[0], a.blocks[0]);
  EXPECT_EQ(b.blocks[1], a.blocks[1]);
  EXPECT_NE(b.blocks[2], a.blocks[2]) << "not full, so not shared";
  EXPECT_NE(b.generation, generation) << "whoever copied the table must copy it again";
  EXPECT_EQ(cache.pool().held(), 4);
  cache.Release(&a);
  cache.Release(&b);
  EXPECT_EQ(cache.pool().held(), 0);
}

TEST(KvCache, DiscardedContentIsNeverHitAgain) {
  KvCache cache({.pages = 9, .page_tokens = 4});
  BlockTable a, b;
  const std::vector<int32_t> tokens = Count(0, 9);
  Compute(&cache, tokens, &a);
  Compute(&cache, tokens, &b);
  cache.Discard(&a);  // b still holds the same two blocks
  BlockTable c;
  EXPECT_EQ(cache.Find(tokens, 8, "", &c).blocks, 0);
  cache.Release(&b);
  EXPECT_EQ(cache.Find(tokens, 8, "", &c).blocks, 0);
  EXPECT_EQ(cache.pool().held(), 0);
}

TEST(KvCache, SwitchedOffItNeverHits) {
  KvCache cache({.pages = 9, .page_tokens = 4, .prefix_caching = false});
  BlockTable a, b;
  Compute(&cache, Count(0, 9), &a);
  EXPECT_EQ(cache.Find(Count(0, 9), 8, "", &b).blocks, 0);
  EXPECT_EQ(cache.prefix_cache().size(), 0);
}

}  // namespace
}  // namespace weft::engine
