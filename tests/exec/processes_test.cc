// Ranks that are processes, over links between threads: every rank loads its own leaves, holds
// mirrors of its peers, follows rank 0, and the bits are those of ranks in one process.
// Covers src/exec/model_instance_job.cc src/exec/rank_executor.cc
#include <gmock/gmock.h>

#include <atomic>
#include <functional>

#include "exec/rank_executor.h"
#include "support/checkpoints.h"
#include "support/loop_link.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kIds{5, 9,  2,  77, 31, 8,  1, 64, 12, 3,
                                3, 90, 41, 7,  22, 18, 6, 55, 4,  11};

std::vector<uint64_t> HashesOf(plan::Executor& executor, int32_t chunk) {
  std::vector<uint64_t> hashes;
  support::Forward(executor, kIds, chunk,
                   [&](int32_t, std::span<const float>, uint64_t hash) { hashes.push_back(hash); });
  return hashes;
}

// What rank 0 of a job of processes answers, for steps of each of these sizes.
std::vector<std::vector<uint64_t>> HashesOfJob(const std::string& model, const ExecConfig& config,
                                               std::span<const int32_t> chunks) {
  support::LoopJob job(config.ranks);
  std::vector<std::vector<uint64_t>> out;
  job.RunEach([&](comm::Link& link) {
    const auto checkpoint = support::OpenCheckpoint(model);
    ExecConfig mine = config;
    mine.link = &link;
    const auto executor = support::MakeExecutor(*checkpoint, mine);
    if (executor == nullptr) return;
    if (link.rank() != 0) {
      const Status status = FollowRankZero(*executor);
      EXPECT_TRUE(status.ok()) << status.message();
      return;
    }
    EXPECT_THAT(executor->Describe(), HasSubstr("in processes"));
    for (int32_t chunk : chunks) out.push_back(HashesOf(*executor, chunk));
    EXPECT_TRUE(EndFollowers(*executor).ok());
  });
  return out;
}

void ExpectTheBitsOfOneProcess(const std::string& model, ExecConfig config) {
  const auto checkpoint = support::OpenCheckpoint(model);
  ExecConfig one = config;
  one.ranks = 1;
  one.threads = 1;
  one.schedule = {};
  const auto alone = support::MakeExecutor(*checkpoint, one);
  const std::vector<uint64_t> want = HashesOf(*alone, 20);
  const int32_t chunks[] = {20, 7, 1};
  const auto got = HashesOfJob(model, config, chunks);
  ASSERT_EQ(got.size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(got[i], want) << config.ranks << " ranks, chunks of " << chunks[i];
}

TEST(Processes, AnyNumberOfThemGivesTheBitsOfOne) {
  for (const std::string& model : support::TinyCheckpoints()) {
    SCOPED_TRACE(model);
    for (int ranks : {2, 3}) ExpectTheBitsOfOneProcess(model, support::SmallConfig(ranks));
  }
}

TEST(Processes, RanksOfSeveralWorkersToo) {
  ExpectTheBitsOfOneProcess(support::TinyCheckpoints()[0], support::SmallConfig(2, 4));
}

TEST(Processes, EveryScheduleAndMethodToo) {
  const std::string model = support::TinyCheckpoints()[0];
  for (const plan::Schedule schedule : plan::kSchedules) {
    SCOPED_TRACE(plan::NameOf(schedule));
    ExecConfig config = support::SmallConfig(4);
    config.schedule.schedule = schedule;
    config.schedule.otp = 2;
    config.schedule.sp_min_tokens = config.schedule.fc1_min_tokens = 1;
    ExpectTheBitsOfOneProcess(model, config);
    config.schedule.shard_o_proj = true;
    ExpectTheBitsOfOneProcess(model, config);
  }
  for (const char* method : {"direct", "two_shot"}) {
    SCOPED_TRACE(method);
    ExecConfig config = support::SmallConfig(3);
    config.impl["all_reduce"] = method;
    ExpectTheBitsOfOneProcess(model, config);
  }
}

// Every process reckons from the routes which of its rows the others take.
TEST(Processes, ExpertsRowsGoFromTheirOwnersToo) {
  for (const char* name : {"qwen3_moe_6h2_bf16", "qwen35_moe_r2_4h2_bf16"}) {
    for (const int ranks : {2, 3, 4}) {
      ExecConfig config = support::SmallConfig(ranks, ranks == 3 ? 6 : ranks);
      config.schedule.schedule = ranks == 2 ? plan::Schedule::kSp : plan::Schedule::kFc1;
      config.schedule.sp_min_tokens = config.schedule.fc1_min_tokens = 1;
      config.compile.switches["exchange_experts"] = graph::Switch::kOn;
      for (const graph::Switch combine : {graph::Switch::kOn, graph::Switch::kOff}) {
        config.compile.switches["combine_rows"] = combine;
        ExpectTheBitsOfOneProcess(std::string(WEFT_TESTS_DIR) + "/models/data/" + name, config);
      }
    }
  }
}

// Each holds a shared expert of its own, and walks it on its own rows.
TEST(Processes, AWholeSharedExpertToo) {
  const std::string model = std::string(WEFT_TESTS_DIR) + "/models/data/qwen35_moe_r2_4h2_bf16";
  ExecConfig config = support::SmallConfig(3);
  std::vector<std::atomic<int64_t>> bytes(2);
  for (const bool whole : {false, true}) {
    config.whole_shared_expert = whole;
    config.schedule.schedule = plan::Schedule::kFc1;
    config.schedule.fc1_min_tokens = 1;
    config.compile.switches["exchange_experts"] = graph::Switch::kOn;
    ExpectTheBitsOfOneProcess(model, config);
    support::LoopJob job(3);
    job.RunEach([&](comm::Link& link) {
      const auto checkpoint = support::OpenCheckpoint(model);
      ExecConfig mine = config;
      mine.link = &link;
      if (const auto executor = support::MakeExecutor(*checkpoint, mine))
        bytes[whole] += InstanceOf(*executor).weight_bytes();
    });
  }
  EXPECT_GT(bytes[1].load(), bytes[0].load()) << "three copies of what was one";
}

// Greedy ids come from a maximum over processes, which is another exchange.
TEST(Processes, GreedyIdsAreThoseOfOneProcess) {
  const auto checkpoint = support::OpenCheckpoint(support::TinyCheckpoints()[0]);
  const auto ids_of = [](plan::Executor& executor) {
    std::vector<int32_t> positions, head_rows;
    std::vector<int64_t> slots;
    const std::vector<int32_t> pages{1, 2};
    for (int32_t t = 0; t < 20; ++t)
      positions.push_back(t), head_rows.push_back(t), slots.push_back(16 + t);
    const Segment segment{0, 20, 0, 2, pages.data()};
    plan::StepInputs in;
    in.ids = kIds;
    in.positions = positions;
    in.slots = slots;
    in.segments = {&segment, 1};
    in.head_rows = head_rows;
    plan::StepOutputs out;
    const Status status = executor.Run(in, &out);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<int32_t> ids;
    for (const SampleOut& row : out.rows) ids.push_back(row.id);
    return ids;
  };
  const auto alone = support::MakeExecutor(*checkpoint, support::SmallConfig(1));
  const std::vector<int32_t> want = ids_of(*alone);
  support::LoopJob job(3);
  job.RunEach([&](comm::Link& link) {
    ExecConfig config = support::SmallConfig(3);
    config.link = &link;
    const auto executor = support::MakeExecutor(*checkpoint, config);
    if (link.rank() != 0) {
      EXPECT_TRUE(FollowRankZero(*executor).ok());
      return;
    }
    EXPECT_EQ(ids_of(*executor), want);
    EXPECT_TRUE(EndFollowers(*executor).ok());
  });
}

TEST(Processes, ARankPacksTheLeavesThatItUses) {
  const auto checkpoint = support::OpenCheckpoint(support::TinyCheckpoints()[0]);
  const int64_t all =
      InstanceOf(*support::MakeExecutor(*checkpoint, support::SmallConfig(4))).weight_bytes();
  support::LoopJob job(4);
  std::atomic<int64_t> sum{0};
  job.RunEach([&](comm::Link& link) {
    ExecConfig config = support::SmallConfig(4);
    config.link = &link;
    const auto executor = support::MakeExecutor(*checkpoint, config);
    const int64_t mine = InstanceOf(*executor).weight_bytes();
    EXPECT_LT(mine, all) << "rank " << link.rank();
    sum += mine;
  });
  EXPECT_GE(sum.load(), all) << "together they hold everything";
}

// What each rank says to a start that cannot work.
std::vector<std::string> RefusalsOf(int ranks,
                                    const std::function<std::string(int, ExecConfig*)>& change) {
  support::LoopJob job(ranks);
  std::vector<std::string> out(static_cast<size_t>(ranks));
  job.RunEach([&](comm::Link& link) {
    ExecConfig config = support::SmallConfig(ranks);
    config.link = &link;
    const auto checkpoint = support::OpenCheckpoint(change(link.rank(), &config));
    static NullLog log;
    const auto made = CreateRankExecutor(*checkpoint, config, &log);
    if (!made.ok()) out[static_cast<size_t>(link.rank())] = made.status().message();
  });
  return out;
}

TEST(Processes, WhatCannotWorkIsRefusedByAllOfThem) {
  const std::vector<std::string> models = support::TinyCheckpoints();
  // Rank 1 has another model, other flags, or an error of its own.
  for (const std::string& refusal :
       RefusalsOf(2, [&](int rank, ExecConfig*) { return models[rank == 1 ? 1 : 0]; })) {
    EXPECT_THAT(refusal, HasSubstr("ranks differ in the checkpoint: rank 0 has '"));
  }
  for (const std::string& refusal : RefusalsOf(3, [&](int rank, ExecConfig*config) {
         if (rank == 1) config->compile.eager = true;
         return models[0];
       })) {
    EXPECT_THAT(refusal,
                HasSubstr("ranks differ in the plans, which follow from flags and profile"));
  }
  const auto refusals = RefusalsOf(2, [&](int rank, ExecConfig* config) {
    if (rank == 1) config->page_tokens = 24;
    return models[0];
  });
  EXPECT_THAT(refusals[1], HasSubstr("--block-size 24 must be"));
  EXPECT_THAT(refusals[0], HasSubstr("rank 1: --block-size 24 must be"));
  for (const std::string& refusal : RefusalsOf(2, [&](int, ExecConfig* config) {
         config->ranks = 3;
         return models[0];
       })) {
    EXPECT_THAT(refusal, HasSubstr("--tensor-parallel-size 3 in a job of 2 processes"));
  }
}

// The least that all have: here rank 1 is the older machine.
TEST(Processes, TakeTheInstructionsThatAllHave) {
  const auto checkpoint = support::OpenCheckpoint(support::TinyCheckpoints()[0]);
  support::LoopJob job(2);
  job.RunEach([&](comm::Link& link) {
    ExecConfig config = support::SmallConfig(2);
    config.link = &link;
    if (link.rank() == 1) config.isa_max = kernels::Isa::kAvx2;
    const auto executor = support::MakeExecutor(*checkpoint, config);
    ASSERT_NE(executor, nullptr);
    EXPECT_EQ(InstanceOf(*executor).config().isa_max, kernels::Isa::kAvx2);
  });
}

// A follower that fails in a step: rank 0 says why, and whom it concerns.
TEST(Processes, AFollowersErrorIsRankZeros) {
  const auto checkpoint = support::OpenCheckpoint(support::TinyCheckpoints()[0]);
  support::LoopJob job(2);
  job.RunEach([&](comm::Link& link) {
    ExecConfig config = support::SmallConfig(2);
    config.link = &link;
    const auto executor = support::MakeExecutor(*checkpoint, config);
    ASSERT_NE(executor, nullptr);
    if (link.rank() == 1) {
      link.abort().Set(Status::Exhausted("no memory left"));
      EXPECT_EQ(FollowRankZero(*executor).message(), "no memory left");
      return;
    }
    std::vector<int32_t> one{0}, pages{1};
    std::vector<int64_t> slots{16};
    const Segment segment{0, 1, 0, 1, pages.data()};
    plan::StepInputs in;
    in.ids = in.positions = in.head_rows = one;
    in.slots = slots;
    in.segments = {&segment, 1};
    plan::StepOutputs out;
    const Status status = executor->Run(in, &out);
    EXPECT_EQ(status.code(), StatusCode::kExhausted);
    EXPECT_EQ(status.message(), "rank 1: no memory left");
    EXPECT_EQ(executor->Run(in, &out).message(), status.message()) << "it stays broken";
  });
}

}  // namespace
}  // namespace weft::exec
