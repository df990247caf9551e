// What a meeting costs: the barrier of two workers and an all-reduce of one row of 2,048 (8 KiB of
// fp32 per rank), on this machine, now. Printed as min / median / max over rounds, since virtual
// CPUs move: compare figures of one run only. Rounds are short, so
// that on a machine with other work the minimum is still one without a preemption.
// Run: barrier_bench [rounds]; at most half a second a line.
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "comm/fabric.h"
#include "comm/roots.h"
#include "device/team.h"
#include "device/topology.h"

namespace {

using namespace weft;  // NOLINT(google-build-using-namespace): one program

struct Spread {
  std::vector<double> values;
  void Print(const char* name, const char* unit) {
    std::sort(values.begin(), values.end());
    std::fflush(stdout);
    fmt::print("{:<44} {:9.1f} / {:9.1f} / {:9.1f} {}\n", name, values.front(),
               values[values.size() / 2], values.back(), unit);
  }
};

constexpr int kRanks = 2;
constexpr int kPerRound = 100;
constexpr int64_t kLineNs = 500 * kNsPerMs;

// ns for each call of op(worker) on both workers.
template <typename Op>
double Time(device::Team& team, Op& op, int count = kPerRound) {
  int64_t ns = 0;
  auto job = [&](int worker) {
    op(worker);  // the first call waits for the slower waker
    const int64_t start = SteadyNowNs();
    for (int i = 0; i < count; ++i) op(worker);
    if (worker == 0) ns = SteadyNowNs() - start;
  };
  team.RunEach(job);
  return static_cast<double>(ns) / count;
}

template <typename Round>
void Repeat(int rounds, const Round& round) {
  const int64_t end_ns = SteadyNowNs() + kLineNs;
  int done = 0;
  do round();
  while (++done < rounds && SteadyNowNs() < end_ns);
}

int Main(int rounds) {
  Result<device::Topology> topology = device::DetectTopology();
  if (!topology.ok()) return fmt::print(stderr, "{}\n", topology.status().message()), 1;
  Result<device::CoreAssignment> cores = device::AssignCores(*topology, kRanks, 1);
  if (!cores.ok()) return fmt::print(stderr, "{}\n", cores.status().message()), 1;
  fmt::print("{}; {}\n", topology->Describe(), cores->Describe());
  const int64_t spin_ns = cores->oversubscribed ? 0 : device::kSpinNs;
  auto team_result =
      device::Team::Create({.workers = kRanks,
                            .cpus = {cores->ranks[0].cpus[0], cores->ranks[1].cpus[0]},
                            .spin_ns = spin_ns});
  if (!team_result.ok()) return fmt::print(stderr, "{}\n", team_result.status().message()), 1;
  device::Team& team = *team_result.value();
  if (Status s = team.PinCaller(); !s.ok()) return fmt::print(stderr, "{}\n", s.message()), 1;
  auto fabric_result = comm::ThreadFabric::Create({.workers = {1, 1}, .spin_ns = spin_ns});
  comm::ThreadFabric& fabric = *fabric_result.value();
  const int group = fabric.AddGroup(std::vector{0, 1}).value();

  device::Barrier barrier(kRanks, {.spin_ns = spin_ns});
  Spread plain;
  auto wait = [&](int worker) { (void)barrier.Wait(worker); };
  // The limit: two flags, no names, no deadline.
  struct alignas(128) Flag {
    std::atomic<int64_t> at{0};
  } flags[kRanks];
  Spread raw;
  auto exchange = [&](int worker) {
    const int64_t mine = flags[worker].at.load(std::memory_order_relaxed) + 1;
    flags[worker].at.store(mine, std::memory_order_release);
    for (int polls = 1; flags[1 - worker].at.load(std::memory_order_acquire) < mine; ++polls) {
      _mm_pause();
      if (polls % 4096 == 0) sched_yield();
    }
  };
  Spread doorbell;
  auto nothing = [](int) {};
  Repeat(rounds, [&] { raw.values.push_back(Time(team, exchange)); });
  Repeat(rounds, [&] { plain.values.push_back(Time(team, wait)); });
  Repeat(rounds, [&] {
    const int64_t start = SteadyNowNs();
    for (int i = 0; i < kPerRound; ++i) team.RunEach(nothing);
    doorbell.values.push_back(static_cast<double>(SteadyNowNs() - start) / kPerRound);
  });
  fmt::print("{:<44} {:>9} / {:>9} / {:>9}\n", "", "min", "median", "max");
  raw.Print("flag exchange, 2 workers (the limit)", "ns");
  plain.Print("barrier, 2 workers", "ns");
  doorbell.Print("team, an empty Run while spinning", "ns");

  // Two sets of partials and results in turn, as a plan does, so that a step needs one meeting.
  for (int64_t rows : {1, 8, 64}) {
    constexpr int64_t kCols = 2048;
    const comm::RootLayout layout = comm::MakeRootLayout(LeafTable::Make(16, 1), kRanks);
    struct Set {
      std::vector<float> roots[kRanks];
      std::vector<uint16_t> y[kRanks];
      float* root_pointers[kRanks];
      View views[kRanks];
    } sets[2];
    const int64_t strides[kRanks] = {kCols, kCols};
    for (Set& set : sets) {
      for (int r = 0; r < kRanks; ++r) {
        set.roots[r].assign(rows * kCols, 1.0f);
        set.y[r].assign(rows * kCols, 0);
        set.root_pointers[r] = set.roots[r].data();
        set.views[r] = {set.y[r].data(), rows, kCols, kCols, DType::kBF16};
      }
    }
    for (const auto* method : comm::AllReduceMethods()) {
      Spread spread;
      struct alignas(128) Turn {
        int64_t value = 0;
      } turns[kRanks];
      auto reduce = [&](int rank) {
        Set& set = sets[turns[rank].value++ % 2];
        // The producer's stores: its lines are dirty here when the peer reads them.
        for (float& x : set.roots[rank]) x = static_cast<float>(turns[rank].value & 15);
        comm::ReduceArgs args{.rank = rank,
                              .ranks = kRanks,
                              .rows = rows,
                              .cols = kCols,
                              .root_count = layout.count(),
                              .root_ranks = layout.root_ranks.data(),
                              .merges = layout.merges.data(),
                              .roots = set.root_pointers,
                              .strides = strides,
                              .y = set.views};
        args.finish = kernels::Choose(kernels::FinishKernels(),
                                      kernels::FinishArgs{.strides = strides,
                                                          .count = layout.count(),
                                                          .merges = layout.merges.data(),
                                                          .y = set.views[rank]},
                                      kernels::DetectIsa());
        (void)comm::RunCollective(fabric, {group, rank, 0}, *method, args, {});
      };
      Repeat(rounds, [&] { spread.values.push_back(Time(team, reduce, kPerRound / 10) / 1000); });
      spread.Print(fmt::format("all_reduce {} {} KiB a rank, written anew", method->name,
                               rows * kCols * 4 / 1024)
                       .c_str(),
                   "us");
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 500); }
