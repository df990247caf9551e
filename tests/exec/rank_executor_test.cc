// Covers src/exec/bind.cc src/exec/model_instance.cc src/exec/rank_tables.cc src/exec/scratch.cc
#include "exec/rank_executor.h"

#include <gmock/gmock.h>

#include "support/checkpoints.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModel = WEFT_TESTS_DIR "/models/data/llama_untied_9h3_f32";

class RankExecutorTest : public ::testing::Test {
 protected:
  RankExecutorTest() : checkpoint_(support::OpenCheckpoint(kModel)) {}

  std::string RefusalOf(const ExecConfig& config) {
    NullLog log;
    auto made = CreateRankExecutor(*checkpoint_, config, &log);
    return made.ok() ? "" : std::string(made.status().message());
  }
  std::vector<uint64_t> HashesOf(const ExecConfig& config, int32_t chunk) {
    const std::vector<int32_t> ids{5, 9,  2,  77, 31, 8,  1, 64, 12, 3,
                                   3, 90, 41, 7,  22, 18, 6, 55, 4,  11};
    std::vector<uint64_t> hashes;
    const auto executor = support::MakeExecutor(*checkpoint_, config);
    if (executor == nullptr) return hashes;
    support::Forward(*executor, ids, chunk, [&](int32_t, std::span<const float>, uint64_t hash) {
      hashes.push_back(hash);
    });
    EXPECT_EQ(hashes.size(), ids.size());
    return hashes;
  }
  // A step of one row that may be made wrong.
  struct Step {
    std::vector<int32_t> ids{3}, positions{0}, pages{1}, head_rows{0};
    std::vector<int64_t> slots{16};
    Segment segment{0, 1, 0, 1, nullptr};
    plan::StepInputs Inputs() {
      segment.pages = pages.data();
      plan::StepInputs in;
      in.ids = ids;
      in.positions = positions;
      in.slots = slots;
      in.segments = {&segment, 1};
      in.head_rows = head_rows;
      return in;
    }
  };

  std::unique_ptr<io::Checkpoint> checkpoint_;
};

TEST_F(RankExecutorTest, EveryRankCountGivesTheBitsOfTheReference) {
  ExecConfig reference = support::SmallConfig(1);
  reference.reference = true;
  const auto want = HashesOf(reference, 20);
  for (int ranks : {1, 2, 3, 5, 8}) {
    EXPECT_EQ(HashesOf(support::SmallConfig(ranks), 20), want) << ranks;
    ExecConfig virtual_ranks = support::SmallConfig(ranks);
    virtual_ranks.reference = true;
    EXPECT_EQ(HashesOf(virtual_ranks, 7), want) << ranks;
  }
}

// A worker fetches weights of its own share, as many as half of its cache holds.
TEST_F(RankExecutorTest, WaitsFetchWeightsThatTheirWorkerReads) {
  ExecConfig config = support::SmallConfig(1, 2);
  config.compile.prefetch_weights = true;
  EXPECT_EQ(HashesOf(config, 1), HashesOf(support::SmallConfig(1, 2), 1));
  const auto executor = support::MakeExecutor(*checkpoint_, config);
  ASSERT_NE(executor, nullptr);
  auto& instance = const_cast<ModelInstance&>(InstanceOf(*executor));
  if (instance.cores().oversubscribed)
    GTEST_SKIP() << "who shares a core does not stay on it while it waits";
  const BoundPlan& bound = instance.body(1);
  int fetched = 0;
  for (const plan::Step& step : bound.plan.steps) {
    if (step.fetches < 0) continue;
    const auto of = static_cast<size_t>(step.fetches);
    const BoundPlan::Pieces &first = bound.ahead[0][0][of], &second = bound.ahead[0][1][of];
    ASSERT_FALSE(first.empty());
    for (const auto& piece : first) {
      for (const auto& other : second) {
        EXPECT_TRUE(piece.data() + piece.size() <= other.data() ||
                    other.data() + other.size() <= piece.data())
            << "step " << of;
      }
    }
    fetched += !second.empty();
  }
  EXPECT_GT(fetched, 0);
}

TEST_F(RankExecutorTest, AWholeSharedExpertThatIsNotThereIsTold) {
  struct Lines final : LogSink {
    void Write(LogLevel, std::string_view text) override { all += fmt::format("{}\n", text); }
    std::string all;
  } log;
  ExecConfig config = support::SmallConfig(2);
  config.whole_shared_expert = true;
  ASSERT_TRUE(CreateRankExecutor(*checkpoint_, config, &log).ok());
  EXPECT_THAT(
      log.all,
      HasSubstr("--enable-shared-expert-dp changes nothing: the model has no shared expert"));
}

TEST_F(RankExecutorTest, RefusalsNameFlagValueAndBound) {
  ExecConfig config = support::SmallConfig(1);
  config.ranks = 0;
  EXPECT_THAT(RefusalOf(config), HasSubstr("--tensor-parallel-size 0 must be at least 1"));
  config = support::SmallConfig(2, 3);
  EXPECT_THAT(RefusalOf(config),
              HasSubstr("--threads 3 must be a multiple of --tensor-parallel-size 2"));
  config = support::SmallConfig(1);
  config.page_tokens = 24;
  EXPECT_THAT(RefusalOf(config), HasSubstr("--block-size 24 must be a positive multiple of 16"));
  config = support::SmallConfig(1);
  config.positions_max = 1 << 30;
  EXPECT_THAT(RefusalOf(config), HasSubstr("--max-model-len 1073741824 must be 1 to "));
  config = support::SmallConfig(1);
  config.tokens_max = 0;
  EXPECT_THAT(RefusalOf(config), HasSubstr("--max-num-batched-tokens 0"));
  config = support::SmallConfig(1);
  config.seqs_max = 0;
  EXPECT_THAT(RefusalOf(config), HasSubstr("--max-num-seqs 0"));
  config = support::SmallConfig(1);
  config.kv_bytes = 1;
  EXPECT_THAT(RefusalOf(config), HasSubstr("--kv-cache-memory-bytes 1 holds no block"));
  config = support::SmallConfig(1);
  config.impl["matmul"] = "fast";
  EXPECT_THAT(RefusalOf(config), HasSubstr("--impl matmul=fast: the family has "));
  config = support::SmallConfig(1);
  config.impl["matmull"] = "ref";
  EXPECT_THAT(RefusalOf(config), HasSubstr("--impl matmull=ref: no such family"));
}

TEST_F(RankExecutorTest, WrongStepsAreRefusedAndTheNextOneRuns) {
  const auto executor = support::MakeExecutor(*checkpoint_, support::SmallConfig(2));
  ASSERT_NE(executor, nullptr);
  plan::StepOutputs outputs;
  const auto refusal = [&](auto change) {
    Step step;
    change(step);
    const Status status = executor->Run(step.Inputs(), &outputs);
    return status.ok() ? std::string() : std::string(status.message());
  };
  const int32_t vocab = executor->limits().vocab_size;
  EXPECT_THAT(refusal([&](Step& s) { s.ids[0] = vocab; }), HasSubstr("token id"));
  EXPECT_THAT(refusal([&](Step& s) { s.ids[0] = -1; }), HasSubstr("token id -1"));
  EXPECT_THAT(refusal([&](Step& s) { s.positions[0] = executor->limits().positions_max; }),
              HasSubstr("position"));
  EXPECT_THAT(refusal([&](Step& s) { s.slots[0] = 3; }), HasSubstr("slot 3"));
  EXPECT_THAT(refusal([&](Step& s) { s.pages[0] = executor->limits().pages; }), HasSubstr("page"));
  EXPECT_THAT(refusal([&](Step& s) { s.segment.rows = 2; }), HasSubstr("segment"));
  EXPECT_THAT(refusal([&](Step& s) { s.head_rows[0] = 1; }), HasSubstr("head row 1"));
  EXPECT_THAT(refusal([&](Step& s) { s.ids.clear(); }), HasSubstr("a step of 0 tokens"));
  EXPECT_EQ(refusal([](Step&) {}), "");
  EXPECT_GE(outputs.rows[0].id, 0);
}

TEST_F(RankExecutorTest, OutputsOfTheCallerNeverShrink) {
  const auto executor = support::MakeExecutor(*checkpoint_, support::SmallConfig(1));
  ASSERT_NE(executor, nullptr);
  plan::StepOutputs outputs;
  outputs.rows.resize(7);
  outputs.top_ids.resize(9);
  Step step;
  ASSERT_TRUE(executor->Run(step.Inputs(), &outputs).ok());
  EXPECT_EQ(outputs.rows.size(), 7u);
  EXPECT_EQ(outputs.top_ids.size(), 9u);
  EXPECT_GT(outputs.step_ns, 0);
}

TEST_F(RankExecutorTest, MemoryIsThatOfTheConfig) {
  ExecConfig config = support::SmallConfig(2);
  config.kv_bytes = 1 << 20;
  const auto executor = support::MakeExecutor(*checkpoint_, config);
  ASSERT_NE(executor, nullptr);
  const ModelInstance& instance = InstanceOf(*executor);
  EXPECT_LE(instance.kv_bytes(), (1 << 20) + 2 * (2 << 20))
      << "two regions of whole huge pages at most";
  EXPECT_GT(executor->limits().pages, 2);
  EXPECT_GT(instance.weight_bytes(), 0);
  EXPECT_THAT(executor->Describe(), HasSubstr("2 ranks x 1 worker"));
}

}  // namespace
}  // namespace weft::exec
