#include "base/clock.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ManualClock, SleepingMovesTimeAndNeverBack) {
  ManualClock clock(5);
  clock.SleepUntil(100);
  EXPECT_EQ(clock.NowNs(), 100);
  clock.SleepUntil(50);
  EXPECT_EQ(clock.NowNs(), 100);
  clock.Advance(7);
  EXPECT_EQ(clock.NowNs(), 107);
}

TEST(SteadyClock, SleepsAtLeastUntil) {
  SteadyClock clock;
  const int64_t start = clock.NowNs();
  clock.SleepUntil(start + 2 * kNsPerMs);
  EXPECT_GE(clock.NowNs(), start + 2 * kNsPerMs);
}

}  // namespace
}  // namespace weft
