#include "fused/tile_flags.h"

#include <gtest/gtest.h>

#include <array>

#include "base/clock.h"
#include "device/team.h"

namespace weft::fused {
namespace {

std::unique_ptr<device::Team> MakeTeam(int workers) {
  auto team = device::Team::Create({.workers = workers, .spin_ns = 0});
  EXPECT_TRUE(team.ok());
  return std::move(team).value();
}

device::WaitSite Soon() {
  return {.deadline_ns = SteadyNowNs() + 20 * kNsPerSecond, .step = 7, .what = "tiles"};
}

// Many steps without a reset: what a tile's maker wrote is there, and a worker that is ahead harms
// nobody.
TEST(TileFlags, ShowWhatWasWrittenStepAfterStep) {
  constexpr int kWorkers = 4, kTiles = 3, kSteps = 300;
  TileFlags flags({.workers = {1, 2, 1}, .spin_ns = 0});
  ASSERT_EQ(flags.ranks(), 3);
  ASSERT_EQ(flags.WorkerOf(2, 0), 3);
  // Two steps' values, as windows that are written again after the next step's flags.
  std::array<std::array<std::array<int, kTiles>, kWorkers>, 2> values{};
  std::array<int, kWorkers> wrong{};
  std::array<Status, kWorkers> statuses;
  auto job = [&](int who) {
    for (int step = 0; step < kSteps && statuses[who].ok(); ++step) {
      const uint64_t before = flags.Raised(who);
      for (int t = 0; t < kTiles; ++t) {
        values[step % 2][who][t] = step * kTiles + t;
        flags.Raise(who);
      }
      for (int t = 0; t < kTiles; ++t) {
        statuses[who] = flags.AwaitAll(who, before + 1 + t, Soon());
        if (!statuses[who].ok()) return;
        for (int peer = 0; peer < kWorkers; ++peer)
          wrong[who] += values[step % 2][peer][t] != step * kTiles + t;
      }
    }
  };
  MakeTeam(kWorkers)->RunEach(job);
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_TRUE(statuses[w].ok()) << statuses[w].message();
    EXPECT_EQ(wrong[w], 0);
    EXPECT_EQ(flags.Raised(w), uint64_t{kTiles * kSteps});
  }
}

TEST(TileFlags, ARankIsUpWhenAllItsWorkersAre) {
  TileFlags flags({.workers = {1, 2}});
  flags.Raise(1);
  EXPECT_FALSE(flags.Up(1, 1));
  flags.Raise(2);
  EXPECT_TRUE(flags.Up(1, 1));
  EXPECT_FALSE(flags.Up(1, 2));
  EXPECT_FALSE(flags.Up(0, 1));
}

TEST(TileFlags, AStalledRankIsNamedAndEverybodyIsReleased) {
  device::AbortFlag abort;
  TileFlags flags({.workers = {1, 2, 1}, .spin_ns = 0, .abort = &abort});
  std::array<Status, 4> statuses;
  const int64_t start = SteadyNowNs();
  auto job = [&](int who) {
    flags.Raise(who);
    if (who == 2) return;  // worker 1 of rank 1: one tile and no more
    flags.Raise(who);
    const device::WaitSite site{who == 0 ? start + 100 * kNsPerMs : device::kNoDeadline, 41,
                                "matmul_all_reduce_norm"};
    statuses[who] = flags.AwaitAll(who, 2, site);
  };
  MakeTeam(4)->RunEach(job);
  EXPECT_LT(SteadyNowNs() - start, 5 * kNsPerSecond);
  for (const int who : {0, 1, 3}) {
    EXPECT_EQ(statuses[who].code(), StatusCode::kDeadline);
    EXPECT_NE(statuses[who].message().find("rank 0 waited 0.1 s for tile 2 of worker 1 of rank 1 "
                                           "at step 41 (matmul_all_reduce_norm)"),
              std::string::npos)
        << statuses[who].message();
  }
  EXPECT_TRUE(abort.is_set()) << "barriers of the same ranks give up with it";
}

}  // namespace
}  // namespace weft::fused
