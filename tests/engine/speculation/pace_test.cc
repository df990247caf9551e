#include "engine/speculation/pace.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace weft::engine {
namespace {

SpeculationConfig Auto(int32_t most) {
  return {.method = SpeculationMethod::kMtp, .tokens = most, .automatic = true};
}

// Steps as the engine makes them: `accept` of each draft behind an accepted one, seconds by number
// of drafts.
int32_t Settle(Pace* pace, double accept, const std::vector<double>& step_s, double draft_s,
               int32_t sequences = 1) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const int32_t k = pace->Drafts(sequences);
    int32_t accepted = 0;
    while (accepted < k && static_cast<double>(rng.Below(1000)) < accept * 1000) ++accepted;
    if (k > 0) pace->Verified(k, accepted);
    pace->Stepped(sequences, k, step_s[static_cast<size_t>(k)]);
    pace->Drafted(sequences, k, draft_s * k);
  }
  return pace->Drafts(sequences);
}

TEST(Pace, WithoutAutoItIsWhatWasAskedFor) {
  Pace pace({.method = SpeculationMethod::kMtp, .tokens = 3});
  EXPECT_EQ(pace.Drafts(1), 3);
  Settle(&pace, 0, {1, 1, 1, 1}, 1);
  EXPECT_EQ(pace.Drafts(8), 3);
  EXPECT_TRUE(pace.Pays(8));
}

TEST(Pace, EachNumberIsTriedBeforeOneIsChosen) {
  Pace pace(Auto(2));
  std::vector<int32_t> tried;
  for (int i = 0; i < 12; ++i) {
    tried.push_back(pace.Drafts(1));
    EXPECT_TRUE(pace.Pays(1));
    pace.Stepped(1, tried.back(), 1);
    pace.Drafted(1, tried.back(), 0.1);
  }
  EXPECT_EQ(tried, (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST(Pace, TakesTheFewestSecondsAToken) {
  // A row more is almost free, and most drafts are right: as many as there may be.
  Pace cheap(Auto(4));
  EXPECT_EQ(Settle(&cheap, 0.9, {1, 1.02, 1.04, 1.06, 1.08}, 0.05), 4);
  EXPECT_NEAR(cheap.acceptance(0), 0.9, 0.1);
  // (1 + 0.25) / 0.5 for one draft against 1.5 for one more row: none.
  Pace dear(Auto(4));
  EXPECT_EQ(Settle(&dear, 0.5, {1, 1.5, 2, 2.5, 3}, 0.25), 0);
  EXPECT_FALSE(dear.Pays(1));
  // One: 1.3 / 1.6 s; two: 1.75 / 1.96; none: 1.
  Pace one(Auto(4));
  EXPECT_EQ(Settle(&one, 0.6, {1, 1.2, 1.55, 2, 2.5}, 0.1), 1);
}

TEST(Pace, EachLoadHasItsOwnCosts) {
  Pace pace(Auto(1));
  Settle(&pace, 0.7, {1, 1.05}, 0.05, 1);
  Settle(&pace, 0.7, {1, 1.9}, 0.05, 8);
  EXPECT_EQ(pace.Drafts(1), 1);
  EXPECT_EQ(pace.Drafts(8), 0);
  EXPECT_EQ(pace.Drafts(7), 0) << "5 to 8 are one class";
  EXPECT_TRUE(pace.Pays(4)) << "not measured";
}

TEST(Pace, WhatIsNewCountsMore) {
  Pace pace(Auto(1));
  Settle(&pace, 0.9, {1, 1.2}, 0.1);
  EXPECT_EQ(pace.Drafts(1), 1);
  for (int i = 0; i < 300; ++i) pace.Verified(1, 0);
  EXPECT_LT(pace.acceptance(0), 0.05);
  EXPECT_EQ(pace.Drafts(1), 0);
}

}  // namespace
}  // namespace weft::engine
