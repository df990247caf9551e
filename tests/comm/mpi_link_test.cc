// A link between processes: mpirun starts this program on every rank, each runs the same cases in
// the same order, and rank 0 reports for all. Covers src/comm/mpi_link.cc
#include "comm/mpi_link.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "process_rank.h"

namespace weft::comm {
namespace {

Link* job = nullptr;  // of main(); never broken by a case

std::unique_ptr<Link> OpenLink(int64_t message_bytes = int64_t{256} << 10) {
  return std::move(
      OpenMpiLink({.spin_ns = 0, .message_bytes = message_bytes}, SoonEnough("open")).value());
}

class Mpi : public testing::Test {
 protected:
  void TearDown() override {
    const Status mine = HasFailure() ? Status::Internal("the case failed there") : Status();
    const Status all = GatherStatus(*job, mine, SoonEnough("end of a case"));
    EXPECT_TRUE(all.ok()) << all.message();
  }
};

TEST_F(Mpi, EveryMethodGivesTheContractsBits) {
  const auto link = OpenLink();
  CheckAllMethods(*link, 1, true);
  EXPECT_TRUE(link->Close(SoonEnough()).ok());
  EXPECT_EQ(link->Transfer(SoonEnough()).code(), StatusCode::kUnavailable);
}
// Streams are cut anywhere: inside an element, inside a row.
TEST_F(Mpi, StreamsTravelInSmallPieces) {
  const auto link = OpenLink(1001);
  CheckAllMethods(*link, 1, false);
  CheckAgreement(*link);
  EXPECT_TRUE(link->Close(SoonEnough()).ok());
}
TEST_F(Mpi, WorkersShareARank) {
  const auto link = OpenLink();
  CheckAllMethods(*link, 3, false);
  EXPECT_TRUE(link->Close(SoonEnough()).ok());
}
TEST_F(Mpi, GroupsExchangeByThemselves) { CheckGroups(*job); }
TEST_F(Mpi, ASyncEndsWhenTheLastHasCome) { CheckSync(*job); }
TEST_F(Mpi, WhatIsPostedTravels) { CheckPostSetsOff(*job); }
TEST_F(Mpi, RanksAgree) { CheckAgreement(*job); }
TEST_F(Mpi, AFailureIsToldToAll) { CheckFailureIsTold(*OpenLink(), *job); }
TEST_F(Mpi, AMissingWorkerIsNamedToAll) { CheckMissingWorkerIsNamed(*OpenLink(), *job); }
TEST_F(Mpi, BytesOfAnotherSizeAreRefused) { CheckOtherSizesAreRefused(*OpenLink(), *job); }
TEST_F(Mpi, ReadsOutsideOfAWindowAreRefused) { CheckReadsOutsideAreRefused(*OpenLink(), *job); }

// The waits of the last rank's peers end at their deadline, and all name it, whether they waited
// for it or for somebody who did.
TEST_F(Mpi, AStalledRankIsNamedByAll) {
  const int rank = job->rank(), ranks = job->ranks(), last = ranks - 1;
  const auto link = OpenLink();
  ProcessRank self(*link, 2, 64);
  ProcessFabric& fabric = self.fabric();
  // Of four ranks 1 and 2 wait for 3, and 0 waits for 2.
  const bool chain = ranks > 2 && rank == 0;
  const int before_last = ranks - 2;
  const std::vector<int> pair = chain ? std::vector{0, before_last} : std::vector{rank, last};
  const int group = rank == last ? self.all() : fabric.AddGroup(pair).value();
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
    EXPECT_EQ(fabric.Sync({self.all(), rank, 0}, SoonEnough()).message(), statuses[0].message());
  }
  (void)Least(*job, 0, SoonEnough()).value();  // all have given up
  if (rank == last) {
    auto team = std::move(device::Team::Create({.workers = 2, .spin_ns = 0}).value());
    auto come = [&](int worker) {
      statuses[worker] = fabric.Sync({self.all(), rank, worker}, SoonEnough("all_reduce"));
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
  auto link = weft::comm::OpenMpiLink({.spin_ns = 0}, weft::comm::SoonEnough("open"));
  if (!link.ok()) {
    std::fprintf(stderr, "%s\n", link.status().message().c_str());
    return 1;
  }
  job = link->get();
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
