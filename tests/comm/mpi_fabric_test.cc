// Collectives between processes: mpirun starts this program on every rank, each runs the same cases
// in the same order, and rank 0 reports for all.
// Covers src/comm/mpi_fabric.cc src/comm/mpi_link.cc
#include "comm/mpi_fabric.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "mpi_job.h"

namespace weft::comm {
namespace {

MpiFabric* job = nullptr;  // of main(); never broken by a case

class Mpi : public testing::Test {
 protected:
  void TearDown() override {
    const Status mine = HasFailure() ? Status::Internal("the case failed there") : Status();
    const Status all = job->GatherStatus(mine, SoonEnough("end of a case"));
    EXPECT_TRUE(all.ok()) << all.message();
  }
  static std::vector<int> AllRanks() {
    std::vector<int> all(job->ranks());
    for (int r = 0; r < job->ranks(); ++r) all[r] = r;
    return all;
  }
  // Nobody does what is next before all are done with what was.
  static void MeetAll() {
    const int group = job->AddGroup(AllRanks()).value();
    ASSERT_TRUE(job->Sync({group, job->rank(), 0}, SoonEnough("meet")).ok());
  }
};

int64_t LargestWindow(const std::vector<std::unique_ptr<WindowCase>>& cases) {
  int64_t bytes = 0;
  for (const auto& test : cases) {
    for (int m = 0; m < test->members(); ++m) bytes = std::max(bytes, test->WindowBytes(m));
  }
  return bytes;
}

// Bytes that others take from this rank.
int64_t BytesTakenFrom(const WindowCase& test, int me) {
  int64_t bytes = 0;
  for (int phase = 0; phase < test.phases(); ++phase) {
    for (int reader = 0; reader < test.members(); ++reader) {
      test.Reads(reader, phase,
                 [&](const Read& r) { bytes += r.from == me ? r.rows * r.bytes : 0; });
    }
  }
  return bytes;
}

// All methods in the group of all ranks; bits of the contract, bytes of the plan, also on the wire.
void CheckAll(int workers, int64_t message_bytes, bool large) {
  const kernels::ScopedFlushDenormals flush;
  const int ranks = job->ranks();
  const auto cases = WindowCases(ranks, 300 + static_cast<uint64_t>(ranks), large);
  RankUnderTest self(workers, {.spin_ns = 0, .message_bytes = message_bytes}, LargestWindow(cases));
  std::vector<int> all(ranks);
  for (int r = 0; r < ranks; ++r) all[r] = r;
  const int group = self.fabric().AddGroup(all).value();
  const MpiLink::Traffic start = self.fabric().wire();
  int64_t bytes_in = 0, bytes_out = 0;
  int64_t calls[kCollectives] = {}, bytes[kCollectives] = {};
  for (const auto& test : cases) {
    const Status status = self.Run(*test, group, SoonEnough());
    ASSERT_TRUE(status.ok()) << test->Name() << ": " << status.message();
    ASSERT_TRUE(self.HasContractsBits(*test, group)) << test->Name();
    bytes_in += test->Bytes(self.rank());
    bytes_out += BytesTakenFrom(*test, self.rank());
    ASSERT_EQ(self.fabric().wire().bytes_in - start.bytes_in, bytes_in) << test->Name();
    ASSERT_EQ(self.fabric().wire().bytes_out - start.bytes_out, bytes_out) << test->Name();
    const auto kind = static_cast<size_t>(test->kind());
    ++calls[kind];
    bytes[kind] += test->Bytes(self.rank());
  }
  for (int k = 0; k < kCollectives; ++k) {
    const auto traffic = self.fabric().TrafficOf(self.rank(), static_cast<Collective>(k));
    EXPECT_EQ(traffic.calls, calls[k]);
    EXPECT_EQ(traffic.bytes, bytes[k]);
    EXPECT_GT(calls[k], 0);
  }
  EXPECT_TRUE(self.fabric().Close(SoonEnough("close")).ok());
}

TEST_F(Mpi, EveryMethodGivesTheContractsBits) { CheckAll(1, int64_t{256} << 10, true); }
// Streams are cut anywhere: inside an element, inside a row.
TEST_F(Mpi, StreamsTravelInSmallPieces) { CheckAll(1, 1001, false); }
TEST_F(Mpi, WorkersShareARank) { CheckAll(3, int64_t{64} << 10, false); }

// Groups of a mesh exchange at the same time, with different collectives.
TEST_F(Mpi, GroupsExchangeByThemselves) {
  const kernels::ScopedFlushDenormals flush;
  const int ranks = job->ranks(), half = ranks / 2, parity = job->rank() % 2;
  const auto cases = WindowCases(half, 400 + static_cast<uint64_t>(parity), false);
  const auto others = WindowCases(half, 401 - static_cast<uint64_t>(parity), false);
  RankUnderTest self(1, {.spin_ns = 0}, std::max(LargestWindow(cases), LargestWindow(others)));
  std::vector<int> mine;
  for (int r = parity; r < ranks; r += 2) mine.push_back(r);
  (void)self.fabric().AddGroup(AllRanks()).value();
  const int group = self.fabric().AddGroup(mine).value();
  EXPECT_EQ(self.fabric().AddGroup(mine).value(), group);
  for (const auto& test : cases) {
    const Status status = self.Run(*test, group, SoonEnough());
    ASSERT_TRUE(status.ok()) << test->Name() << ": " << status.message();
    ASSERT_TRUE(self.HasContractsBits(*test, group)) << test->Name();
  }
  EXPECT_TRUE(self.fabric().Close(SoonEnough("close")).ok());
}

TEST_F(Mpi, ASyncEndsWhenTheLastHasCome) {
  const int group = job->AddGroup(AllRanks()).value();
  for (int last = 0; last < job->ranks(); ++last) {
    // Rank `last` is late, and all processes of one machine read the same clock.
    if (job->rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int64_t came_ns = SteadyNowNs();
    ASSERT_TRUE(job->Sync({group, job->rank(), 0}, SoonEnough()).ok());
    const int64_t left_ns = SteadyNowNs();
    // The earliest end is after the latest arrival.
    const int64_t earliest_end = job->Least(left_ns, SoonEnough()).value();
    const int64_t latest_arrival = -job->Least(-came_ns, SoonEnough()).value();
    EXPECT_GE(earliest_end, latest_arrival);
  }
}

TEST_F(Mpi, RanksAgreeOnFactsOrTellTheDifference) {
  const int rank = job->rank(), ranks = job->ranks();
  EXPECT_TRUE(job->CheckSame("the plan", "0123456789abcdef", SoonEnough()).ok());
  EXPECT_TRUE(job->CheckSame("nothing", "", SoonEnough()).ok());
  const Status status =
      job->CheckSame("the numerics version", rank == ranks - 1 ? "8" : "7", SoonEnough());
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_EQ(status.message(),
            fmt::format("ranks differ in the numerics version: rank 0 has '7', rank {} has '8'",
                        ranks - 1));
  EXPECT_EQ(job->Least(10 - rank, SoonEnough()).value(), 10 - (ranks - 1));
}

TEST_F(Mpi, RankZerosBytesBecomeEverybodys) {
  std::vector<std::byte> bytes;
  for (size_t size : {size_t{0}, size_t{1}, size_t{777}, size_t{700'000}, size_t{5}}) {
    Rng rng(size);
    std::vector<std::byte> expected(size);
    for (std::byte& b : expected) b = std::byte(rng.Next());
    if (job->rank() == 0) bytes = expected;
    ASSERT_TRUE(job->Broadcast(&bytes, SoonEnough()).ok());
    EXPECT_EQ(bytes, expected);
  }
}

TEST_F(Mpi, RankZeroHearsTheFirstErrorOfAStep) {
  const int last = job->ranks() - 1;
  EXPECT_TRUE(job->GatherStatus({}, SoonEnough()).ok());
  const Status mine = job->rank() == last ? Status::Exhausted("no room for {} rows", 9) : Status();
  const Status status = job->GatherStatus(mine, SoonEnough());
  if (job->rank() == 0) {
    EXPECT_EQ(status.code(), StatusCode::kExhausted);
    EXPECT_EQ(status.message(), fmt::format("rank {}: no room for 9 rows", last));
  } else {
    EXPECT_EQ(status.ok(), mine.ok());
  }
}

// The waits of the last rank's peers end at their deadline, and all name it, whether they waited
// for it or for somebody who did.
TEST_F(Mpi, AStalledRankIsNamedByAll) {
  const int rank = job->rank(), ranks = job->ranks(), last = ranks - 1;
  RankUnderTest self(2, {.spin_ns = 0}, 64);
  MpiFabric& fabric = self.fabric();
  const int all = fabric.AddGroup(AllRanks()).value();
  // Of four ranks 1 and 2 wait for 3, and 0 waits for 2.
  const bool chain = ranks > 2 && rank == 0;
  const int before_last = ranks - 2;
  const std::vector<int> pair = chain ? std::vector{0, before_last} : std::vector{rank, last};
  const int group = rank == last ? all : fabric.AddGroup(pair).value();
  const int64_t start = SteadyNowNs();
  const device::WaitSite site{
      .deadline_ns = start + kNsPerSecond, .step = 41, .what = "all_reduce"};
  Status statuses[2];
  if (rank != last) {
    auto team = std::move(device::Team::Create({.workers = 2, .spin_ns = 0}).value());
    auto wait = [&](int worker) { statuses[worker] = fabric.Sync({group, rank, worker}, site); };
    team->RunEach(wait);
    const std::string whom = chain ? fmt::format("rank {}, held up by rank {}", before_last, last)
                                   : fmt::format("rank {}", last);
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kDeadline);
      EXPECT_TRUE(status.message().starts_with(fmt::format("rank {} waited", rank)))
          << status.message();
      EXPECT_TRUE(status.message().ends_with(fmt::format("s for {} at step 41 (all_reduce)", whom)))
          << status.message();
    }
    EXPECT_GE(SteadyNowNs() - start, kNsPerSecond);
    // It stays broken.
    EXPECT_EQ(fabric.Sync({all, rank, 0}, SoonEnough()).message(), statuses[0].message());
  }
  MeetAll();
  if (rank == last) {
    auto team = std::move(device::Team::Create({.workers = 2, .spin_ns = 0}).value());
    auto come = [&](int worker) {
      statuses[worker] = fabric.Sync({all, rank, worker}, SoonEnough("all_reduce"));
    };
    team->RunEach(come);
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kDeadline);
      EXPECT_TRUE(status.message().starts_with(
          fmt::format("rank {} came too late (all_reduce): rank", rank)))
          << status.message();
    }
  }
}

// A failure inside one rank reaches the others at once, with its reason.
TEST_F(Mpi, AFailureIsToldToAll) {
  const int rank = job->rank(), ranks = job->ranks();
  RankUnderTest self(1, {.spin_ns = 0}, 64);
  const int all = self.fabric().AddGroup(AllRanks()).value();
  MeetAll();
  if (rank == ranks - 1) self.fabric().Abort(Status::Exhausted("no memory for {} rows", 5));
  const int64_t start = SteadyNowNs();
  const Status status = self.fabric().Sync({all, rank, 0}, SoonEnough());
  EXPECT_LT(SteadyNowNs() - start, 30 * kNsPerSecond);
  EXPECT_EQ(status.code(), StatusCode::kExhausted);
  EXPECT_EQ(status.message(), rank == ranks - 1
                                  ? "no memory for 5 rows"
                                  : fmt::format("rank {}: no memory for 5 rows", ranks - 1));
}

TEST_F(Mpi, AMissingWorkerIsNamedToAll) {
  const int rank = job->rank(), ranks = job->ranks();
  RankUnderTest self(2, {.spin_ns = 0}, 64);
  MpiFabric& fabric = self.fabric();
  const int all = fabric.AddGroup(AllRanks()).value();
  MeetAll();
  Status statuses[2];
  auto team = std::move(device::Team::Create({.workers = 2, .spin_ns = 0}).value());
  auto wait = [&](int worker) {
    if (rank == 1 && worker == 1) return;
    device::WaitSite site = SoonEnough();
    if (rank == 1) site.deadline_ns = SteadyNowNs() + 200 * kNsPerMs;
    statuses[worker] = fabric.Sync({all, rank, worker}, site);
  };
  team->RunEach(wait);
  for (int worker = 0; worker < 2; ++worker) {
    if (rank == 1 && worker == 1) continue;
    EXPECT_EQ(statuses[worker].code(), StatusCode::kDeadline);
    EXPECT_NE(statuses[worker].message().find("s for worker 1 of rank 1"), std::string::npos)
        << statuses[worker].message();
    EXPECT_EQ(statuses[worker].message().starts_with("rank 1: "), rank != 1);
  }
  EXPECT_GE(ranks, 2);
}

// Ranks that are in different places of a plan fail; they do not read each other's bytes.
TEST_F(Mpi, BytesOfAnotherSizeAreRefused) {
  const int rank = job->rank(), ranks = job->ranks();
  RankUnderTest self(1, {.spin_ns = 0}, 4096);
  const int all = self.fabric().AddGroup(AllRanks()).value();
  MeetAll();
  PairMaxCase here(PairMaxMethods()[0], ranks, rank == 1 ? 5 : 7, 1);
  const Status status = self.Run(here, all, SoonEnough());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
}

TEST_F(Mpi, ReadsOutsideOfAWindowAreRefused) {
  const int rank = job->rank(), ranks = job->ranks();
  RankUnderTest self(1, {.spin_ns = 0}, 4096);
  const int all = self.fabric().AddGroup(AllRanks()).value();
  MeetAll();
  const auto reads = [&](int member, ReadVisit visit) {
    const int from = (member + 1) % ranks;
    visit({.from = from,
           .rows = 2,
           .bytes = 8,
           .data = self.fabric().WindowOf(from).data() + 4000,
           .stride = 100});
  };
  const Status status = self.fabric().Exchange({all, rank, 0}, reads, SoonEnough());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("bytes 4000 to 4108 of the window of rank"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("which has 4096"), std::string::npos);
}

TEST_F(Mpi, RefusesGroupsThatAreNone) {
  EXPECT_FALSE(MpiFabric::Create({.workers = 0}, SoonEnough()).ok());
  EXPECT_FALSE(job->AddGroup(std::vector<int>{}).ok());
  EXPECT_FALSE(job->AddGroup(std::vector{0, job->ranks()}).ok());
  EXPECT_FALSE(job->AddGroup(std::vector{0, 0}).ok());
}

class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", job->rank(), result.file_name(),
                 result.line_number(), result.message());
  }
};

}  // namespace
}  // namespace weft::comm

int main(int argc, char** argv) {
  using weft::comm::job;
  auto fabric =
      weft::comm::MpiFabric::Create({.link = {.spin_ns = 0}}, weft::comm::SoonEnough("create"));
  if (!fabric.ok()) {
    std::fprintf(stderr, "%s\n", fabric.status().message().c_str());
    return 1;
  }
  job = fabric->get();
  // One report, named by the number of ranks.
  std::string report;
  const char* const folder = std::getenv("GTEST_OUTPUT");
  if (job->rank() == 0 && folder != nullptr && *folder != '\0') {
    report = fmt::format("{}weft_comm_mpi_{}_test.json", folder, job->ranks());
  }
  testing::GTEST_FLAG(output) = report;
  testing::InitGoogleTest(&argc, argv);
  if (job->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new weft::comm::FailuresOnly);
  }
  const int result = RUN_ALL_TESTS();
  const weft::Status closed = job->Close(weft::comm::SoonEnough("close"));
  if (!closed.ok()) std::fprintf(stderr, "%s\n", closed.message().c_str());
  return closed.ok() ? result : 1;
}
