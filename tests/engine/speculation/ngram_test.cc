#include "engine/speculation/ngram.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace weft::engine {
namespace {

using Ids = std::vector<int32_t>;

Ids Propose(const Ids& tokens, int32_t low, int32_t high, int32_t count) {
  Ids drafts;
  ProposeByLookup(tokens, low, high, count, &drafts);
  return drafts;
}

TEST(Ngram, WhatCameBehindTheSameTokensComesAgain) {
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2, 3}, 2, 3, 3), (Ids{4, 1, 2}));
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2, 3}, 2, 3, 1), (Ids{4}));
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2, 3}, 2, 3, 0), Ids());
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2, 3}, 4, 5, 3), Ids()) << "nothing of that length came twice";
  EXPECT_EQ(Propose({1, 2, 3, 4}, 1, 5, 3), Ids());
  EXPECT_EQ(Propose({7}, 1, 5, 3), Ids());
}

TEST(Ngram, TheLongestMatchWinsAndOfThoseTheLatest) {
  EXPECT_EQ(Propose({1, 2, 3, 9, 5, 2, 3, 8, 1, 2, 3}, 1, 3, 1), (Ids{9}))
      << "three tokens against two";
  EXPECT_EQ(Propose({1, 2, 3, 9, 5, 2, 3, 8, 1, 2, 3}, 1, 2, 1), (Ids{8}))
      << "two are enough, and these are nearer";
  EXPECT_EQ(Propose({4, 4, 4, 4}, 1, 3, 4), (Ids{4})) << "it may reach into what it matches";
}

TEST(Ngram, IsTheDefinition) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    Ids tokens;
    for (uint64_t n = 1 + rng.Below(30); n > 0; --n)
      tokens.push_back(static_cast<int32_t>(rng.Below(3)));
    const auto low = static_cast<int32_t>(1 + rng.Below(3)),
               high = static_cast<int32_t>(low + rng.Below(3));
    const auto length = static_cast<int32_t>(tokens.size());
    Ids expected;
    for (int32_t n = high; n >= low && expected.empty(); --n) {
      for (int32_t end = length - 1; end >= n && expected.empty(); --end) {
        if (!std::equal(tokens.end() - n, tokens.end(), tokens.begin() + end - n)) continue;
        expected.assign(tokens.begin() + end, tokens.begin() + std::min(end + 4, length));
      }
    }
    ASSERT_EQ(Propose(tokens, low, high, 4), expected) << i;
  }
}

}  // namespace
}  // namespace weft::engine
