// Collectives on real threads: teams of uneven size, more workers than this machine has cores.
#include "comm/fabric.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "device/team.h"
#include "reduce_case.h"

namespace weft::comm {
namespace {

using device::Team;

std::unique_ptr<ThreadFabric> MakeFabric(std::vector<int> workers) {
  Result<std::unique_ptr<ThreadFabric>> fabric =
      ThreadFabric::Create({.workers = std::move(workers), .spin_ns = 0});
  EXPECT_TRUE(fabric.ok());
  return std::move(fabric.value());
}

std::unique_ptr<Team> MakeTeam(int workers) {
  Result<std::unique_ptr<Team>> team = Team::Create({.workers = workers, .spin_ns = 0});
  EXPECT_TRUE(team.ok());
  return std::move(team.value());
}

struct Place {
  int rank, worker;
};
std::vector<Place> Places(const Fabric& fabric) {
  std::vector<Place> out;
  for (int r = 0; r < fabric.ranks(); ++r) {
    for (int w = 0; w < fabric.WorkersOf(r); ++w) out.push_back({r, w});
  }
  return out;
}

TEST(ThreadFabric, AllMethodsGiveTheTreesBitsOnUnevenTeamsAndCountWhatTheyTake) {
  constexpr int kRounds = 8;
  for (const std::vector<int>& workers :
       {std::vector{1}, std::vector{1, 1}, std::vector{2, 1, 1}, std::vector{1, 2, 1, 1}}) {
    const int ranks = static_cast<int>(workers.size());
    auto fabric = MakeFabric(workers);
    std::vector<int> all(ranks);
    for (int r = 0; r < ranks; ++r) all[r] = r;
    const int group = fabric->AddGroup(all).value();
    const std::vector<Place> places = Places(*fabric);
    auto team = MakeTeam(static_cast<int>(places.size()));

    std::vector<int64_t> bytes(ranks, 0);
    int64_t calls = 0;
    for (const Method<ReduceArgs>* method : AllReduceMethods()) {
      ReduceCase test({.ranks = ranks, .leaves = 16, .rows = 5, .cols = 300, .offset = 1});
      const std::vector<ReduceArgs> args = test.Args(Collective::kAllReduce);
      if (!method->refuse(args[0]).empty()) continue;
      for (int round = 0; round < kRounds; ++round) {
        test.Reset();
        std::vector<Status> statuses(places.size());
        auto job = [&](int w) {
          statuses[w] = RunCollective(*fabric, {group, places[w].rank, places[w].worker}, *method,
                                      std::span<const ReduceArgs>(args),
                                      {.deadline_ns = SteadyNowNs() + 20 * kNsPerSecond});
        };
        team->RunEach(job);
        for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.message();
        for (int r = 0; r < ranks; ++r) {
          ASSERT_EQ(test.Results()[r], test.Expected(Collective::kAllReduce, r))
              << method->name << " rank " << r << " of " << ranks;
        }
      }
      for (int r = 0; r < ranks; ++r) bytes[r] += kRounds * method->bytes(args[r]);
      calls += kRounds;
    }
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(fabric->TrafficOf(r, Collective::kAllReduce).bytes, bytes[r]);
      EXPECT_EQ(fabric->TrafficOf(r, Collective::kAllReduce).calls, calls);
      EXPECT_EQ(fabric->TrafficOf(r, Collective::kAllGather).calls, 0);
    }
    EXPECT_EQ(fabric->TrafficOf(Collective::kAllReduce).calls, calls * ranks);
  }
}

// Two groups of a mesh at work at the same time do not wait for each other.
TEST(ThreadFabric, GroupsMeetByThemselves) {
  auto fabric = MakeFabric({1, 1, 1, 1});
  const int left = fabric->AddGroup(std::vector{0, 2}).value();
  const int right = fabric->AddGroup(std::vector{1, 3}).value();
  EXPECT_NE(left, right);
  EXPECT_EQ(fabric->AddGroup(std::vector{0, 2}).value(), left);
  auto team = MakeTeam(4);
  std::vector<Status> statuses(4);
  auto job = [&](int rank) {
    const int group = rank % 2 == 0 ? left : right;
    const int rounds = rank % 2 == 0 ? 50 : 20;
    for (int i = 0; i < rounds && statuses[rank].ok(); ++i) {
      statuses[rank] =
          fabric->Sync({group, rank, 0}, {.deadline_ns = SteadyNowNs() + 20 * kNsPerSecond});
    }
  };
  team->RunEach(job);
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ThreadFabric, AStalledRankIsNamedAndEverybodyIsReleased) {
  auto fabric = MakeFabric({2, 1, 1, 1});
  const int left = fabric->AddGroup(std::vector{0, 2}).value();
  const int right = fabric->AddGroup(std::vector{1, 3}).value();
  const std::vector<Place> places = Places(*fabric);
  auto team = MakeTeam(static_cast<int>(places.size()));
  std::vector<Status> statuses(places.size());
  const int64_t start = SteadyNowNs();
  auto job = [&](int w) {
    const Place place = places[w];
    if (place.rank == 2) return;  // stalled
    if (place.rank == 1) return;  // rank 3 then waits too, with no deadline of its own
    const bool has_deadline = place.rank == 0;
    statuses[w] =
        fabric->Sync({place.rank % 2 == 0 ? left : right, place.rank, place.worker},
                     {.deadline_ns = has_deadline ? start + 100 * kNsPerMs : device::kNoDeadline,
                      .step = 41,
                      .what = NameOf(Collective::kAllReduce).data()});
  };
  team->RunEach(job);
  EXPECT_LT(SteadyNowNs() - start, 5 * kNsPerSecond);
  for (size_t w = 0; w < places.size(); ++w) {
    if (places[w].rank == 1 || places[w].rank == 2) continue;
    EXPECT_EQ(statuses[w].code(), StatusCode::kDeadline);
    EXPECT_NE(
        statuses[w].message().find("of rank 0 waited 0.1 s for rank 2 at step 41 (all_reduce)"),
        std::string::npos)
        << statuses[w].message();
  }
  // It stays broken: nobody runs half a step on it.
  EXPECT_FALSE(fabric->Sync({right, 3, 0}, {}).ok());
}

TEST(ThreadFabric, RefusesGroupsThatAreNone) {
  EXPECT_FALSE(ThreadFabric::Create({}).ok());
  EXPECT_FALSE(ThreadFabric::Create({.workers = {1, 0}}).ok());
  auto fabric = MakeFabric({1, 1});
  EXPECT_FALSE(fabric->AddGroup(std::vector<int>{}).ok());
  EXPECT_FALSE(fabric->AddGroup(std::vector{0, 2}).ok());
  EXPECT_FALSE(fabric->AddGroup(std::vector{0, 0}).ok());
}

}  // namespace
}  // namespace weft::comm
