#include "base/hash.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace weft {
namespace {

// Published values of XXH64 and XXH3-128, so that a hash in a log means the same everywhere.
TEST(Hash, MatchesThePublishedValues) {
  EXPECT_EQ(Hash64(""), 0xef46db3751d8e999u);
  EXPECT_EQ(Hash64("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(Hash128("").Hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, StreamsForgetHowTheBytesWereCut) {
  Rng rng(1);
  std::vector<uint8_t> bytes(3000);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.Next());
  for (int round = 0; round < 50; ++round) {
    Hash64Stream stream64(round);
    Hash128Stream stream128(round);
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(bytes.size() - at, rng.Below(700));
      stream64.Add(bytes.data() + at, n);
      stream128.Add(bytes.data() + at, n);
      at += n;
    }
    EXPECT_EQ(stream64.Digest(), Hash64(bytes.data(), bytes.size(), round));
    EXPECT_EQ(stream128.Digest(), Hash128(bytes.data(), bytes.size(), round));
  }
}

TEST(Hash, StreamsCanBeCopiedAndContinued) {
  Hash128Stream a(7);
  a.Add("prefix");
  Hash128Stream b = a;
  a.AddValue(1);
  b.AddValue(2);
  EXPECT_NE(a.Digest(), b.Digest());
}

TEST(Rng, SeedDecidesAndBelowStaysBelow) {
  Rng a(3), b(3), c(4);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(b.Next(), c.Next());
  int counts[7] = {};
  for (int i = 0; i < 70000; ++i) ++counts[a.Below(7)];
  // Each of 7 has mean 10,000 and deviation sqrt(70000 * 6 / 49) = 93; six of them either way.
  for (int count : counts) EXPECT_NEAR(count, 10000, 6 * 93);
  for (int i = 0; i < 1000; ++i) {
    const float x = a.Uniform(-2, 3);
    EXPECT_GE(x, -2);
    EXPECT_LT(x, 3);
  }
}

}  // namespace
}  // namespace weft
