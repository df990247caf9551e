#include "engine/kv/prefix_cache.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

const std::vector<int32_t> kA{1, 2, 3, 4};
const std::vector<int32_t> kB{5, 6, 7, 8};

TEST(PrefixCache, FindsWhatWasInsertedAndNothingElse) {
  PrefixCache cache(8, 4, 9, {});
  const Hash128Value a = cache.Chain(nullptr, kA, "");
  const Hash128Value ab = cache.Chain(&a, kB, "");
  cache.Insert(3, a, 0, kA, "");
  cache.Insert(5, ab, 3, kB, "");
  EXPECT_EQ(cache.Find(a, 0, kA, ""), 3);
  EXPECT_EQ(cache.Find(ab, 3, kB, ""), 5);
  EXPECT_EQ(cache.Find(cache.Chain(nullptr, kB, ""), 0, kB, ""), 0) << "B at position 0";
  EXPECT_EQ(cache.size(), 2);
}

TEST(PrefixCache, AForgedHashFindsNothing) {
  PrefixCache cache(8, 4, 9, {});
  const Hash128Value a = cache.Chain(nullptr, kA, "");
  cache.Insert(3, a, 0, kA, "");
  EXPECT_EQ(cache.Find(a, 0, kB, ""), 0) << "the hash of A with the tokens of B";
  EXPECT_EQ(cache.Find(a, 5, kA, ""), 0) << "the tokens of A after another block";
}

TEST(PrefixCache, SaltsNeverShareNotEvenUnderOneHash) {
  PrefixCache cache(8, 4, 9, {.prefix_hash_bits = 0});
  const Hash128Value hash = cache.Chain(nullptr, kA, "red");
  EXPECT_EQ(hash, cache.Chain(nullptr, kA, "blue")) << "the switch makes them collide";
  cache.Insert(1, hash, 0, kA, "red");
  EXPECT_EQ(cache.Find(hash, 0, kA, "blue"), 0);
  EXPECT_EQ(cache.Find(hash, 0, kA, "red"), 1);
}

TEST(PrefixCache, CollidingContentsLiveSideBySide) {
  PrefixCache cache(8, 4, 9, {.prefix_hash_bits = 0});
  const Hash128Value hash{};
  cache.Insert(1, hash, 0, kA, "");
  cache.Insert(2, hash, 0, kB, "");
  EXPECT_EQ(cache.Find(hash, 0, kA, ""), 1);
  EXPECT_EQ(cache.Find(hash, 0, kB, ""), 2);
  cache.Remove(2);
  EXPECT_EQ(cache.Find(hash, 0, kA, ""), 1);
  EXPECT_EQ(cache.Find(hash, 0, kB, ""), 0);
}

TEST(PrefixCache, ABlockAfterOneThatWasRemovedIsUnreachable) {
  PrefixCache cache(8, 4, 9, {});
  const Hash128Value a = cache.Chain(nullptr, kA, "");
  const Hash128Value ab = cache.Chain(&a, kB, "");
  cache.Insert(3, a, 0, kA, "");
  cache.Insert(5, ab, 3, kB, "");
  cache.Remove(3);
  // Page 3 comes back with other tokens: 5 must not follow it, though its id is the same.
  const Hash128Value b = cache.Chain(nullptr, kB, "");
  cache.Insert(3, b, 0, kB, "");
  EXPECT_EQ(cache.Find(ab, 3, kB, ""), 0);
}

TEST(PrefixCache, TheKeyChangesEveryHash) {
  EXPECT_NE(PrefixCache(8, 4, 1, {}).Chain(nullptr, kA, ""),
            PrefixCache(8, 4, 2, {}).Chain(nullptr, kA, ""));
}

}  // namespace
}  // namespace weft::engine
