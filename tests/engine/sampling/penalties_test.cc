#include "engine/sampling/penalties.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace weft::engine {
namespace {

TEST(SeenTokens, CountsTheOutputAndNamesThePrompt) {
  const std::vector<int32_t> prompt{9, 2, 9, 5};
  SeenTokens seen(prompt, 3);
  for (int32_t id : {5, 7, 5}) seen.Add(id);
  SampleRow row;
  seen.Fill(&row);
  const std::vector<int32_t> ids(row.seen_ids, row.seen_ids + row.seen);
  const std::vector<int32_t> counts(row.seen_counts, row.seen_counts + row.seen);
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 5, 7, 9}));
  EXPECT_EQ(counts, (std::vector<int32_t>{0, 2, 1, 0}));
}

TEST(SeenTokens, EqualsACountFromScratch) {
  Rng rng(4);
  std::vector<int32_t> prompt(50);
  for (int32_t& id : prompt) id = static_cast<int32_t>(rng.Below(100));
  std::map<int32_t, int32_t> expected;
  for (int32_t id : prompt) expected[id];
  SeenTokens seen(prompt, 500);
  for (int i = 0; i < 500; ++i) {
    const auto id = static_cast<int32_t>(rng.Below(100));
    seen.Add(id);
    ++expected[id];
  }
  SampleRow row;
  seen.Fill(&row);
  ASSERT_EQ(row.seen, static_cast<int32_t>(expected.size()));
  int i = 0;
  for (const auto& [id, count] : expected) {
    EXPECT_EQ(row.seen_ids[i], id);
    EXPECT_EQ(row.seen_counts[i++], count);
  }
}

TEST(SeenTokens, TracksNothingUnlessAsked) {
  SeenTokens seen;
  seen.Add(3);
  SampleRow row;
  seen.Fill(&row);
  EXPECT_EQ(row.seen, 0);
}

}  // namespace
}  // namespace weft::engine
