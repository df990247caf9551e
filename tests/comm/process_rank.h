// One rank of a job whose ranks share no memory, and what it can be asked to do: for tests over
// links between threads and over MPI.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "comm/agree.h"
#include "comm/process_fabric.h"
#include "device/team.h"
#include "window_case.h"

namespace weft::comm {

// Far more than any wait takes on a machine that is busy.
inline device::WaitSite SoonEnough(const char* what = "") {
  return {.deadline_ns = SteadyNowNs() + 60 * kNsPerSecond, .what = what};
}

inline std::vector<int> AllRanks(const Link& link) {
  std::vector<int> all(static_cast<size_t>(link.ranks()));
  for (int r = 0; r < link.ranks(); ++r) all[static_cast<size_t>(r)] = r;
  return all;
}

inline Status RunOnWorker(Fabric& fabric, const Actor& actor, const WindowCase& test,
                          const device::WaitSite& site) {
  if (const auto* reduce = dynamic_cast<const MethodCase<ReduceArgs>*>(&test)) {
    return RunCollective(fabric, actor, reduce->method(), reduce->args(), site);
  }
  if (const auto* move = dynamic_cast<const MethodCase<MoveArgs>*>(&test)) {
    return RunCollective(fabric, actor, move->method(), move->args(), site);
  }
  if (const auto* rows = dynamic_cast<const MethodCase<DispatchRowsArgs>*>(&test)) {
    return RunCollective(fabric, actor, rows->method(), rows->args(), site);
  }
  if (const auto* rows = dynamic_cast<const MethodCase<CombineRowsArgs>*>(&test)) {
    return RunCollective(fabric, actor, rows->method(), rows->args(), site);
  }
  const auto& pairs = dynamic_cast<const MethodCase<PairMaxArgs>&>(test);
  return RunCollective(fabric, actor, pairs.method(), pairs.args(), site);
}

// A fabric, the workers of this rank, a window, and mirrors of the others.
class ProcessRank {
 public:
  ProcessRank(Link& link, int workers, int64_t window_bytes) : window_(window_bytes) {
    fabric_ = std::move(ProcessFabric::Create(&link, {.workers = workers, .spin_ns = 0}).value());
    fabric_->SetWindow(rank(), window_);
    const Status shared = fabric_->ShareWindows(SoonEnough("windows"));
    EXPECT_TRUE(shared.ok()) << shared.message();
    team_ = std::move(device::Team::Create({.workers = workers, .spin_ns = 0}).value());
    all_ = fabric_->AddGroup(AllRanks(link)).value();
  }
  ProcessFabric& fabric() { return *fabric_; }
  int rank() const { return fabric_->rank(); }
  int all() const { return all_; }  // the group of all ranks

  // f(worker) on every worker of this rank; the first error.
  template <typename F>
  Status OnWorkers(const F& f) {
    std::vector<Status> statuses(static_cast<size_t>(team_->workers()));
    auto job = [&](int worker) { statuses[static_cast<size_t>(worker)] = f(worker); };
    team_->RunEach(job);
    for (const Status& status : statuses) WEFT_RETURN_IF_ERROR(status);
    return {};
  }
  // The case in `group`, of which this rank is a member, with mirrors that hold poison at first.
  Status Run(WindowCase& test, int group, const device::WaitSite& site) {
    const std::span<const int> ranks = fabric_->GroupOf(group);
    const int me = fabric_->PlaceOf({group, rank(), 0});
    std::vector<std::byte*> windows;
    for (size_t m = 0; m < ranks.size(); ++m) {
      std::byte* const window = fabric_->WindowOf(ranks[m]).data();
      windows.push_back(window);
      const int64_t bytes = test.WindowBytes(static_cast<int>(m));
      WEFT_CHECK(bytes <= static_cast<int64_t>(window_.size()), "a window of {} bytes", bytes);
      std::fill_n(window, bytes, std::byte{0xFF});
    }
    test.Fill(me, windows[me]);
    test.See(windows);
    return OnWorkers([&](int worker) {
      return RunOnWorker(*fabric_, {group, rank(), worker}, test, site);
    });
  }
  bool HasContractsBits(const WindowCase& test, int group) const {
    const int me = fabric_->PlaceOf({group, rank(), 0});
    const std::vector<std::byte> expected = test.Expected(me);
    return std::equal(expected.begin(), expected.end(), window_.begin() + test.ResultOf(me).begin);
  }

 private:
  std::vector<std::byte> window_;
  std::unique_ptr<ProcessFabric> fabric_;
  std::unique_ptr<device::Team> team_;
  int all_ = 0;
};

inline int64_t LargestWindow(const std::vector<std::unique_ptr<WindowCase>>& cases) {
  int64_t bytes = 0;
  for (const auto& test : cases) {
    for (int m = 0; m < test->members(); ++m) bytes = std::max(bytes, test->WindowBytes(m));
  }
  return bytes;
}

// Bytes that others take from this member.
inline int64_t BytesTakenFrom(const WindowCase& test, int me) {
  int64_t bytes = 0;
  for (int phase = 0; phase < test.phases(); ++phase) {
    for (int reader = 0; reader < test.members(); ++reader) {
      test.Reads(reader, phase,
                 [&](const Read& r) { bytes += r.from == me ? r.rows * r.bytes : 0; });
    }
  }
  return bytes;
}

// All methods in the group of all ranks: bits of the contract, and bytes of the plan on the wire.
inline void CheckAllMethods(Link& link, int workers, bool large) {
  const kernels::ScopedFlushDenormals flush;
  const auto cases = WindowCases(link.ranks(), 300 + static_cast<uint64_t>(link.ranks()), large);
  ProcessRank self(link, workers, LargestWindow(cases));
  const Link::Traffic start = link.traffic();
  int64_t bytes_in = 0, bytes_out = 0;
  int64_t calls[kCollectives] = {}, bytes[kCollectives] = {};
  for (const auto& test : cases) {
    const Status status = self.Run(*test, self.all(), SoonEnough());
    ASSERT_TRUE(status.ok()) << test->Name() << ": " << status.message();
    ASSERT_TRUE(self.HasContractsBits(*test, self.all())) << test->Name();
    bytes_in += test->Bytes(self.rank());
    bytes_out += BytesTakenFrom(*test, self.rank());
    ASSERT_EQ(link.traffic().bytes_in - start.bytes_in, bytes_in) << test->Name();
    ASSERT_EQ(link.traffic().bytes_out - start.bytes_out, bytes_out) << test->Name();
    const auto kind = static_cast<size_t>(test->kind());
    ++calls[kind];
    bytes[kind] += test->Bytes(self.rank());
  }
  for (int k = 0; k < kCollectives; ++k) {
    const Traffic traffic = self.fabric().TrafficOf(self.rank(), static_cast<Collective>(k));
    EXPECT_EQ(traffic.calls, calls[k]);
    EXPECT_EQ(traffic.bytes, bytes[k]);
    EXPECT_GT(calls[k], 0);
  }
}

// Even and odd ranks exchange at the same time, with different collectives.
inline void CheckGroups(Link& link) {
  const kernels::ScopedFlushDenormals flush;
  const int parity = link.rank() % 2;
  std::vector<int> mine;
  for (int r = parity; r < link.ranks(); r += 2) mine.push_back(r);
  const auto cases =
      WindowCases(static_cast<int>(mine.size()), 400 + static_cast<uint64_t>(parity), false);
  const auto bytes = static_cast<int64_t>(LargestWindow(cases));
  // Windows of all ranks are the same size here, those of the other group's cases too.
  const int64_t largest = -Least(link, -bytes, SoonEnough()).value();
  ProcessRank self(link, 1, largest);
  const int group = self.fabric().AddGroup(mine).value();
  EXPECT_EQ(self.fabric().AddGroup(mine).value(), group);
  for (const auto& test : cases) {
    const Status status = self.Run(*test, group, SoonEnough());
    ASSERT_TRUE(status.ok()) << test->Name() << ": " << status.message();
    ASSERT_TRUE(self.HasContractsBits(*test, group)) << test->Name();
  }
}

// A Sync ends after the last arrival. Rank `last` is late, and all ranks read the same clock.
inline void CheckSync(Link& link) {
  ProcessRank self(link, 1, 64);
  for (int last = 0; last < link.ranks(); ++last) {
    if (self.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int64_t came_ns = SteadyNowNs();
    ASSERT_TRUE(self.fabric().Sync({self.all(), self.rank(), 0}, SoonEnough()).ok());
    const int64_t left_ns = SteadyNowNs();
    const int64_t earliest_end = Least(link, left_ns, SoonEnough()).value();
    const int64_t latest_arrival = -Least(link, -came_ns, SoonEnough()).value();
    EXPECT_GE(earliest_end, latest_arrival);
  }
}

// What a rank has posted travels before anybody waits for it: peers get the bytes of that moment,
// as far as a message goes.
inline void CheckPostSetsOff(Link& link) {
  ProcessRank self(link, 1, 64);
  const int rank = link.rank(), next = (rank + 1) % link.ranks();
  const std::span<std::byte> mine = self.fabric().WindowOf(rank);
  const auto reads = [&](int member, ReadVisit visit) {
    const int holder = (member + 1) % link.ranks();
    visit({.from = holder,
           .rows = 1,
           .bytes = 8,
           .data = self.fabric().WindowOf(holder).data(),
           .stride = 8});
  };
  for (int round = 0; round < 3; ++round) {
    std::ranges::fill(mine, std::byte(10 * round + rank + 1));
    const Actor actor{self.all(), rank, 0};
    ASSERT_TRUE(self.fabric().Post(actor, reads, SoonEnough("post")).ok());
    std::ranges::fill(mine, std::byte(255));
    ASSERT_TRUE(self.fabric().Complete(actor, SoonEnough("complete")).ok());
    EXPECT_EQ(self.fabric().WindowOf(next)[7], std::byte(10 * round + next + 1));
  }
}

inline void CheckAgreement(Link& link) {
  const int rank = link.rank(), ranks = link.ranks(), last = ranks - 1;
  EXPECT_TRUE(CheckSame(link, "the plan", "0123456789abcdef", SoonEnough()).ok());
  EXPECT_TRUE(CheckSame(link, "nothing", "", SoonEnough()).ok());
  const Status differ =
      CheckSame(link, "the numerics version", rank == last ? "8" : "7", SoonEnough());
  EXPECT_EQ(differ.code(), StatusCode::kInvalid);
  EXPECT_EQ(
      differ.message(),
      fmt::format("ranks differ in the numerics version: rank 0 has '7', rank {} has '8'", last));
  EXPECT_EQ(Least(link, 10 - rank, SoonEnough()).value(), 10 - last);

  std::vector<std::byte> bytes;
  for (size_t size : {size_t{0}, size_t{1}, size_t{777}, size_t{700'000}, size_t{5}}) {
    Rng rng(size);
    std::vector<std::byte> expected(size);
    for (std::byte& b : expected) b = std::byte(rng.Next());
    if (rank == 0) bytes = expected;
    ASSERT_TRUE(Broadcast(link, &bytes, SoonEnough()).ok());
    EXPECT_EQ(bytes, expected);
  }

  EXPECT_TRUE(GatherStatus(link, {}, SoonEnough()).ok());
  const Status mine = rank == last ? Status::Exhausted("no room for {} rows", 9) : Status();
  const Status told = GatherStatus(link, mine, SoonEnough());
  if (rank == 0) {
    EXPECT_EQ(told.code(), StatusCode::kExhausted);
    EXPECT_EQ(told.message(), fmt::format("rank {}: no room for 9 rows", last));
  } else {
    EXPECT_EQ(told.ok(), mine.ok());
  }

  // Ranks of one machine with the same cores.
  const Neighbours neighbours = FindNeighbours(link, SoonEnough()).value();
  EXPECT_LE(neighbours.on_cores, neighbours.on_host);
  EXPECT_LE(neighbours.on_host, ranks);
  EXPECT_LT(neighbours.place_on_cores, neighbours.on_cores);
}

// Nobody goes on before all have come. `calm`: a link that no case breaks, or one whose messages do
// not overtake each other.
inline void MeetAll(Link& calm) { ASSERT_TRUE(Least(calm, 0, SoonEnough("meet")).ok()); }

// A failure inside one rank reaches the others at once, with its reason. Breaks the link.
inline void CheckFailureIsTold(Link& link, Link& calm) {
  ProcessRank self(link, 1, 64);
  const int rank = self.rank(), last = link.ranks() - 1;
  MeetAll(calm);
  if (rank == last) self.fabric().Abort(Status::Exhausted("no memory for {} rows", 5));
  const Status status = self.fabric().Sync({self.all(), rank, 0}, SoonEnough());
  EXPECT_EQ(status.code(), StatusCode::kExhausted);
  EXPECT_EQ(status.message(), rank == last ? "no memory for 5 rows"
                                           : fmt::format("rank {}: no memory for 5 rows", last));
  // It stays broken.
  EXPECT_EQ(self.fabric().Sync({self.all(), rank, 0}, SoonEnough()).message(), status.message());
}

// A worker that does not come is named on all ranks. Breaks the link.
inline void CheckMissingWorkerIsNamed(Link& link, Link& calm) {
  ProcessRank self(link, 2, 64);
  const int rank = self.rank();
  MeetAll(calm);
  const Status status = self.OnWorkers([&](int worker) -> Status {
    if (rank == 1 && worker == 1) return {};
    device::WaitSite site = SoonEnough();
    if (rank == 1) site.deadline_ns = SteadyNowNs() + 200 * kNsPerMs;
    return self.fabric().Sync({self.all(), rank, worker}, site);
  });
  EXPECT_EQ(status.code(), StatusCode::kDeadline);
  EXPECT_NE(status.message().find("s for worker 1 of rank 1"), std::string::npos)
      << status.message();
  EXPECT_EQ(status.message().starts_with("rank 1: "), rank != 1) << status.message();
}

// Ranks that are in different places of a plan fail. Breaks the link.
inline void CheckOtherSizesAreRefused(Link& link, Link& calm) {
  ProcessRank self(link, 1, 4096);
  MeetAll(calm);
  PairMaxCase here(PairMaxMethods()[0], link.ranks(), self.rank() == 1 ? 5 : 7, 1);
  const Status status = self.Run(here, self.all(), SoonEnough());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("rank"), std::string::npos) << status.message();
}

// Breaks the link.
inline void CheckReadsOutsideAreRefused(Link& link, Link& calm) {
  ProcessRank self(link, 1, 4096);
  MeetAll(calm);
  const auto reads = [&](int member, ReadVisit visit) {
    const int from = (member + 1) % link.ranks();
    visit({.from = from,
           .rows = 2,
           .bytes = 8,
           .data = self.fabric().WindowOf(from).data() + 4000,
           .stride = 100});
  };
  const Status status = self.fabric().Exchange({self.all(), self.rank(), 0}, reads, SoonEnough());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("bytes 4000 to 4108 of the window of rank"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("which has 4096"), std::string::npos);
}

}  // namespace weft::comm
