#include "plan/cost_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

namespace weft::plan {
namespace {

CostTable Sample() {
  return {.exchanges = {{"all_reduce", "direct", 2, 100, 40},
                        {"all_reduce", "two_shot", 2, 90, 30},
                        {"all_reduce", "direct", 8, 300, 50},
                        {"all_gather", "direct", 4, 70, 20}},
          .meetings = {{2, 50}, {8, 200}}};
}

TEST(CostTable, APhaseAndAKibCostWhatTheTableSays) {
  const CostTable table = Sample();
  EXPECT_EQ(table.ExchangeNs("all_reduce", "direct", 2, 0, 1), 100);
  EXPECT_EQ(table.ExchangeNs("all_reduce", "direct", 2, 2048, 1), 180);
  EXPECT_EQ(table.ExchangeNs("all_reduce", "two_shot", 2, 2048, 2), 240);
  EXPECT_EQ(table.ExchangeNs("all_reduce", "direct", 2, 512, 1), 120);
  EXPECT_EQ(table.ExchangeNs("all_reduce", "halving", 2, 2048, 2), std::nullopt);
  EXPECT_EQ(table.ExchangeNs("all_to_all", "direct", 2, 2048, 1), std::nullopt);
}

TEST(CostTable, TheNearestMeasuredRanksBelowAreTakenElseTheFewestAbove) {
  const CostTable table = Sample();
  EXPECT_EQ(table.ExchangeNs("all_reduce", "direct", 7, 0, 1), 100);
  EXPECT_EQ(table.ExchangeNs("all_reduce", "direct", 8, 0, 1), 300);
  EXPECT_EQ(table.ExchangeNs("all_reduce", "direct", 64, 0, 1), 300);
  EXPECT_EQ(table.ExchangeNs("all_gather", "direct", 2, 0, 1), 70);
  EXPECT_EQ(table.MeetingNs(1), 50);
  EXPECT_EQ(table.MeetingNs(4), 50);
  EXPECT_EQ(table.MeetingNs(9), 200);
  EXPECT_EQ(CostTable{}.MeetingNs(2), 0);
  CostTable other_order = table;
  std::reverse(other_order.exchanges.begin(), other_order.exchanges.end());
  for (int ranks : {1, 2, 3, 8, 9}) {
    EXPECT_EQ(other_order.ExchangeNs("all_reduce", "direct", ranks, 0, 1),
              table.ExchangeNs("all_reduce", "direct", ranks, 0, 1));
  }
}

TEST(CostTable, EveryFigureIsInTheHash) {
  const std::function<void(CostTable&)> changes[] = {
      [](CostTable&) {},
      [](CostTable& t) { t.exchanges[1].collective = "all_gather"; },
      [](CostTable& t) { t.exchanges[1].method = "halving"; },
      [](CostTable& t) { t.exchanges[1].ranks = 4; },
      [](CostTable& t) { t.exchanges[1].phase_ns += 0.1; },
      [](CostTable& t) { t.exchanges[1].kib_ns += 0.1; },
      [](CostTable& t) { t.meetings[1].workers = 3; },
      [](CostTable& t) { t.meetings[1].ns += 1; },
      [](CostTable& t) { t.exchanges.pop_back(); },
      [](CostTable& t) { t.meetings.pop_back(); },
      [](CostTable& t) { t = {}; },
  };
  std::set<uint64_t> hashes;
  for (const auto& change : changes) {
    CostTable table = Sample();
    change(table);
    hashes.insert(table.Hash());
  }
  EXPECT_EQ(hashes.size(), std::size(changes));
  EXPECT_EQ(Sample().Hash(), Sample().Hash());
}

TEST(Cheapest, ALaterMethodMustSaveSomething) {
  EXPECT_EQ(Cheapest({{"a", 100}, {"b", 91}}), 0u) << "within the noise of the figures";
  EXPECT_EQ(Cheapest({{"a", 100}, {"b", 89}}), 1u);
  EXPECT_EQ(Cheapest({{"a", 100}, {"b", 89}, {"c", 81}}), 1u);
  EXPECT_EQ(Cheapest({{"a", 100}, {"b", 95}, {"c", 89}}), 2u);
  EXPECT_EQ(Cheapest({{"a", 100}, {"b", 200}}), 0u);
}

TEST(Cheapest, WhatTheTableDoesNotKnowComesLast) {
  EXPECT_EQ(Cheapest({{"a", std::nullopt}, {"b", 1e9}}), 1u);
  EXPECT_EQ(Cheapest({{"a", 1e9}, {"b", std::nullopt}}), 0u);
  EXPECT_EQ(Cheapest({{"a", std::nullopt}, {"b", std::nullopt}}), 0u);
}

}  // namespace
}  // namespace weft::plan
