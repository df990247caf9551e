// Ranks that share no memory, over links between threads; mpi_link_test.cc does the same over MPI.
// Covers src/comm/agree.cc src/comm/process_fabric.cc
#include "comm/process_fabric.h"

#include <gtest/gtest.h>

#include "process_rank.h"
#include "support/loop_link.h"

namespace weft::comm {
namespace {

using support::LoopJob;

TEST(ProcessFabric, EveryMethodGivesTheContractsBitsAndTheWireCarriesThePlansBytes) {
  for (int ranks : {1, 2, 3, 5}) {
    LoopJob(ranks).RunEach([](Link& link) { CheckAllMethods(link, 1, false); });
  }
  LoopJob(2).RunEach([](Link& link) { CheckAllMethods(link, 3, false); });
}

TEST(ProcessFabric, GroupsExchangeByThemselves) { LoopJob(4).RunEach(CheckGroups); }
TEST(ProcessFabric, ASyncEndsWhenTheLastHasCome) { LoopJob(3).RunEach(CheckSync); }
TEST(ProcessFabric, WhatIsPostedTravels) { LoopJob(3).RunEach(CheckPostSetsOff); }
TEST(ProcessFabric, RanksAgree) { LoopJob(3).RunEach(CheckAgreement); }
TEST(ProcessFabric, AFailureIsToldToAll) {
  LoopJob(3).RunEach([](Link& link) { CheckFailureIsTold(link, link); });
}
TEST(ProcessFabric, AMissingWorkerIsNamedToAll) {
  LoopJob(3).RunEach([](Link& link) { CheckMissingWorkerIsNamed(link, link); });
}
TEST(ProcessFabric, BytesOfAnotherSizeAreRefused) {
  LoopJob(2).RunEach([](Link& link) { CheckOtherSizesAreRefused(link, link); });
}
TEST(ProcessFabric, ReadsOutsideOfAWindowAreRefused) {
  LoopJob(3).RunEach([](Link& link) { CheckReadsOutsideAreRefused(link, link); });
}

TEST(ProcessFabric, RefusesGroupsThatAreNone) {
  LoopJob job(2);
  EXPECT_FALSE(ProcessFabric::Create(&job.link(0), {.workers = 0}).ok());
  auto fabric = std::move(ProcessFabric::Create(&job.link(0), {}).value());
  EXPECT_FALSE(fabric->AddGroup(std::vector<int>{}).ok());
  EXPECT_FALSE(fabric->AddGroup(std::vector{0, 2}).ok());
  EXPECT_FALSE(fabric->AddGroup(std::vector{0, 0}).ok());
}

}  // namespace
}  // namespace weft::comm
