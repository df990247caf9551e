// Covers src/device/barrier.cc src/device/wait.cc
// Team and Barrier with real threads; on a machine with fewer cores than workers they must be
// correct too, only slower.
#include "device/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <set>

#include "base/clock.h"
#include "device/barrier.h"
#include "device/mxcsr.h"

namespace weft::device {
namespace {

std::unique_ptr<Team> MakeTeam(Team::Options options) {
  Result<std::unique_ptr<Team>> team = Team::Create(std::move(options));
  EXPECT_TRUE(team.ok()) << team.status().message();
  return std::move(team.value());
}

int64_t ProcessCpuNs() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

TEST(Team, EveryWorkerRunsEveryJobOnceAndRunSeesTheirWrites) {
  for (int workers : {1, 2, 3, 8}) {
    auto team = MakeTeam({.workers = workers, .spin_ns = workers > 2 ? 0 : kSpinNs});
    std::vector<int> counts(workers, 0);  // plain ints: the team orders the accesses
    auto job = [&](int worker) { ++counts[worker]; };
    for (int run = 1; run <= 300; ++run) {
      team->RunEach(job);
      for (int w = 0; w < workers; ++w) ASSERT_EQ(counts[w], run) << "worker " << w;
    }
  }
}

TEST(Team, WorkerZeroIsTheCaller) {
  auto team = MakeTeam({.workers = 3, .spin_ns = 0});
  std::vector<std::thread::id> ids(3);
  auto job = [&](int worker) { ids[worker] = std::this_thread::get_id(); };
  team->RunEach(job);
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 3u);
}

TEST(Team, SleepingWorkersWakeUp) {
  auto team = MakeTeam({.workers = 2});
  int value = 0;
  auto job = [&](int worker) {
    if (worker == 1) ++value;
  };
  for (int i = 1; i <= 5; ++i) {
    SteadyClock().SleepUntil(SteadyNowNs() + 2 * kNsPerMs);  // longer than any spin
    team->RunEach(job);
    EXPECT_EQ(value, i);
  }
}

TEST(Team, IdleUsesLessThanOnePercentOfACore) {
  auto team = MakeTeam({.workers = 4});
  auto job = [](int) {};
  team->RunEach(job);
  SteadyClock().SleepUntil(SteadyNowNs() + 10 * kNsPerMs);
  const int64_t wall = SteadyNowNs();
  const int64_t cpu = ProcessCpuNs();
  SteadyClock().SleepUntil(wall + 300 * kNsPerMs);
  EXPECT_LT(ProcessCpuNs() - cpu, (SteadyNowNs() - wall) / 100);
}

TEST(Team, DenormalsAreFlushedInJobsAndTheCallersStateComesBack) {
  _mm_setcsr(_mm_getcsr() & ~kFlushBits);
  auto team = MakeTeam({.workers = 2});
  volatile float tiny = 1e-38f;
  float results[2] = {1, 1};
  auto job = [&](int worker) { results[worker] = tiny * 0.01f; };
  team->RunEach(job);
  EXPECT_EQ(results[0], 0);
  EXPECT_EQ(results[1], 0);
  EXPECT_NE(tiny * 0.01f, 0.0f) << "the caller's own arithmetic is not ours to change";
  std::thread engine([&] {
    ASSERT_TRUE(team->PinCaller().ok());
    EXPECT_EQ(_mm_getcsr() & kFlushBits, kFlushBits);
  });
  engine.join();
}

TEST(Team, WorkersRunWhereTheyArePinned) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  }
  auto team = MakeTeam({.workers = 2, .cpus = {kUnpinned, last}});
  int cpu = -1;
  auto job = [&](int worker) {
    if (worker == 1) cpu = sched_getcpu();
  };
  team->RunEach(job);
  EXPECT_EQ(cpu, last);
}

TEST(Team, AMissingCpuIsAnErrorThatNamesTheWorker) {
  Result<std::unique_ptr<Team>> team =
      Team::Create({.workers = 2,
                    .cpus = {kUnpinned, 1000},
                    .names = {"worker 0 of rank 0", "worker 0 of rank 1"}});
  ASSERT_FALSE(team.ok());
  EXPECT_NE(team.status().message().find("worker 0 of rank 1: cannot run on CPU 1000"),
            std::string::npos)
      << team.status().message();
}

class Lines final : public LogSink {
 public:
  void Write(LogLevel, std::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

TEST(Team, AWorkerThatStaysInItsJobIsReported) {
  Lines log;
  auto team = MakeTeam({.workers = 2, .log = &log, .heartbeat_ns = 5 * kNsPerMs});
  auto job = [](int worker) {
    if (worker == 1) SteadyClock().SleepUntil(SteadyNowNs() + 60 * kNsPerMs);
  };
  team->RunEach(job);
  ASSERT_GE(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("for worker 1 to end its job"), std::string::npos) << log.lines[0];
}

// Plain ints written before the barrier and read after it: TSan would see a missing order, and the
// values would be wrong if anybody passed early.
TEST(Barrier, NobodyPassesBeforeAllHaveArrived) {
  for (int n : {1, 2, 3, 8, 9, 12}) {  // 9 and 12: collected by participant 0
    for (int64_t spin_ns : {int64_t{0}, kSpinNs}) {
      if (n > 3 && spin_ns > 0) continue;
      auto team = MakeTeam({.workers = n, .spin_ns = spin_ns});
      Barrier barrier(n, {.spin_ns = spin_ns});
      const int rounds = n > 3 ? 200 : 2000;
      std::vector<std::vector<int>> values(2, std::vector<int>(n, -1));
      std::atomic<int> wrong{0};
      auto job = [&](int worker) {
        for (int round = 0; round < rounds; ++round) {
          // Two sets in turn: a peer may read this round's set until the next barrier.
          values[round % 2][worker] = round;
          if (!barrier.Wait(worker).ok()) return;
          for (int v : values[round % 2]) wrong += v != round;
        }
      };
      team->RunEach(job);
      EXPECT_EQ(wrong, 0) << n << " participants";
    }
  }
}

TEST(Barrier, ArriveAndAwaitLeaveRoomForOtherWork) {
  auto team = MakeTeam({.workers = 2});
  Barrier barrier(2, {});
  std::vector<int> sum(2, 0), posted(2, 0);
  auto job = [&](int worker) {
    for (int round = 1; round <= 500; ++round) {
      posted[worker] = round;
      barrier.Arrive(worker);
      int other_work = round * 3;
      ASSERT_TRUE(barrier.Await(worker).ok());
      sum[worker] += posted[1 - worker] + other_work * 0;
      ASSERT_TRUE(barrier.Wait(worker).ok());  // before posted is written again
    }
  };
  team->RunEach(job);
  EXPECT_EQ(sum[0], 500 * 501 / 2);
  EXPECT_EQ(sum[1], 500 * 501 / 2);
}

TEST(Barrier, AStalledParticipantIsNamedWithinTheDeadline) {
  for (int n : {3, 10}) {
    std::vector<std::string> names;
    for (int i = 0; i < n; ++i) names.push_back(fmt::format("worker {} of rank {}", i % 2, i / 2));
    Barrier barrier(n, {.spin_ns = 0, .names = names});
    auto team = MakeTeam({.workers = n, .spin_ns = 0});
    std::vector<Status> statuses(n);
    const int64_t start = SteadyNowNs();
    auto job = [&](int worker) {
      if (worker == 2) return;  // never comes
      statuses[worker] = barrier.Wait(
          worker, {.deadline_ns = start + 100 * kNsPerMs, .step = 41, .what = "all_reduce"});
    };
    team->RunEach(job);
    const int64_t took = SteadyNowNs() - start;
    EXPECT_GE(took, 100 * kNsPerMs);
    EXPECT_LT(took, 2000 * kNsPerMs);
    for (int w = 0; w < n; ++w) {
      if (w == 2) continue;
      EXPECT_EQ(statuses[w].code(), StatusCode::kDeadline);
      // One reason for all: who waited first, for how long, for whom, where.
      EXPECT_EQ(statuses[w].message(), statuses[0].message());
    }
    EXPECT_NE(statuses[0].message().find("waited 0.1 s for worker 0 of rank 1 at step 41 "
                                         "(all_reduce)"),
              std::string::npos)
        << statuses[0].message();
  }
}

TEST(Barrier, AnAbortReleasesEveryBarrierOfItsSet) {
  AbortFlag abort;
  Barrier a(2, {.spin_ns = 0, .abort = &abort}), b(2, {.abort = &abort});
  auto team = MakeTeam({.workers = 3, .spin_ns = 0});
  std::vector<Status> statuses(3);
  auto job = [&](int worker) {
    if (worker == 0) {
      SteadyClock().SleepUntil(SteadyNowNs() + 20 * kNsPerMs);
      abort.Set(Status::Cancelled("the server stops"));
      abort.Set(Status::Internal("too late to be the reason"));
    } else {
      statuses[worker] = (worker == 1 ? a : b).Wait(0);
    }
  };
  team->RunEach(job);
  for (int w : {1, 2}) {
    EXPECT_EQ(statuses[w].code(), StatusCode::kCancelled);
    EXPECT_EQ(statuses[w].message(), "the server stops");
  }
}

}  // namespace
}  // namespace weft::device
