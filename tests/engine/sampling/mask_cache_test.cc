#include "engine/sampling/mask_cache.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

const std::vector<int32_t> kEos{50, 51};

// vLLM's tests of check_stop (tests/v1/core/test_scheduler.py).
TEST(StopMask, MinTokensComesBeforeEverything) {
  const StopMask mask({.max_tokens = 20, .min_tokens = 5, .stop_token_ids = {42}}, kEos);
  EXPECT_FALSE(mask.Judge(50, 3).stop);
  EXPECT_FALSE(mask.Judge(42, 4).stop);
  EXPECT_TRUE(mask.Judge(50, 9).stop);
  EXPECT_EQ(mask.Judge(50, 9).stop_token, -1) << "the first eos has no stop_reason, as in vLLM";
  EXPECT_EQ(mask.Judge(51, 9).stop_token, 51);
  EXPECT_TRUE(mask.Judge(42, 5).stop);
  EXPECT_EQ(mask.Judge(42, 5).stop_token, 42);
  EXPECT_FALSE(mask.Judge(43, 5).stop);
}

TEST(StopMask, IgnoreEosKeepsTheStopIds) {
  const StopMask mask({.ignore_eos = true, .stop_token_ids = {42}}, kEos);
  EXPECT_FALSE(mask.Judge(50, 1).stop);
  EXPECT_FALSE(mask.Judge(51, 1).stop);
  EXPECT_TRUE(mask.Judge(42, 1).stop);
}

// The row that gives output t (from 0) is masked iff t < min_tokens.
TEST(StopMask, BansExactlyTheFirstMinTokens) {
  const StopMask mask({.max_tokens = 20, .min_tokens = 3, .stop_token_ids = {42, 50}}, kEos);
  for (int t = 0; t < 3; ++t) {
    const auto banned = mask.BannedAt(t);
    EXPECT_EQ(std::vector<int32_t>(banned.begin(), banned.end()),
              (std::vector<int32_t>{42, 50, 51}));
  }
  EXPECT_TRUE(mask.BannedAt(3).empty());
}

TEST(StopMask, AModelWithoutEosStopsByIdsOnly) {
  const StopMask mask({.stop_token_ids = {1}}, {});
  EXPECT_FALSE(mask.Judge(0, 1).stop);
  EXPECT_TRUE(mask.Judge(1, 1).stop);
}

}  // namespace
}  // namespace weft::engine
