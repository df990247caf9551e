// The plans of three models as text, under review: tests/plans/<model>.tp<ranks>.txt. A change of
// passes, waits, sharing, exchanges or memory shows there, line by line, and is committed with the
// code that makes it. The reference kernels stand for all, so that no machine has plans of its own.
//   WEFT_UPDATE_PLANS=1 weft_exec_test --gtest_filter='*GoldenPlans*'     writes them anew
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/cpu_target.h"
#include "graph/builder.h"
#include "graph/passes/pass.h"
#include "models/model.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "support/golden_text.h"
#include "support/sparse_checkpoint.h"

namespace weft::exec {
namespace {

using plan::Bucket;
using plan::HeadMode;

// The shapes and formats of SmolLM2-135M-Instruct.Q4_1.gguf, two of its thirty layers.
support::SparseCheckpoint SmolLm2() {
  const support::DecoderSpec spec{.layers = 2,
                                  .hidden = 576,
                                  .width = 1536,
                                  .heads = 9,
                                  .kv_heads = 3,
                                  .head_dim = 64,
                                  .vocab = 49152,
                                  .dtype = DType::kQ4_1};
  return support::OpenSparseGguf(support::GgufMetadata(spec),
                                 support::GgufTensors(spec, DType::kQ8_0));
}

support::SparseCheckpoint Tiny(const std::string& name) {
  auto opened = io::Checkpoint::Open(std::string(WEFT_TESTS_DIR) + "/models/data/" + name);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return {nullptr, std::move(opened).value()};
}

class PlanPrinter {
 public:
  PlanPrinter(const io::Checkpoint& checkpoint, int ranks, plan::ScheduleConfig schedule = {},
              models::ModelOptions model = {})
      : checkpoint_(checkpoint),
        ranks_(ranks),
        schedule_(schedule),
        model_(model),
        target_(Options(ranks)) {}

  std::string Body(const char* what, int32_t rows) const {
    auto graph = Model().build_body(checkpoint_, model_);
    return Text(what, std::move(graph),
                {Bucket::Kind::kBody, rows, rows, HeadMode::kGreedy, false});
  }
  std::string Head(const char* what, int32_t rows, HeadMode mode, bool hash) const {
    auto graph = Model().build_head(checkpoint_, {}, {mode == HeadMode::kSample, hash});
    return Text(what, std::move(graph), {Bucket::Kind::kHead, rows, rows, mode, hash});
  }

 private:
  // Two workers share a rank of one or two, so that what each does for itself shows too.
  static CpuTargetOptions Options(int ranks) {
    CpuTargetOptions options;
    options.reference = true;
    options.workers_per_rank = ranks < 3 ? 2 : 1;
    return options;
  }
  const models::Model& Model() const {
    auto model = models::FindModel(checkpoint_.config());
    EXPECT_TRUE(model.ok()) << model.status().message();
    return **model;
  }
  std::string Text(const char* what, Result<graph::Graph> graph, const Bucket& bucket) const {
    if (!graph.ok()) return graph.status().message();
    const plan::BucketSchedule schedule = plan::ScheduleFor(schedule_, ranks_, bucket);
    auto placed = graph::InsertCollectives(graph::Expand(*graph, {}), schedule.mesh);
    if (!placed.ok()) return placed.status().message();
    plan::CompileOptions options;
    options.switches = schedule.switches;
    options.schedule = NameOf(schedule.schedule);
    options.schedule_note = schedule.reason;
    auto plan = plan::Compile(*placed, bucket, target_, options);
    if (!plan.ok()) return plan.status().message();
    return fmt::format("== {}\n{}fingerprint {:016x}\n", what, Print(*plan), plan->fingerprint);
  }

  const io::Checkpoint& checkpoint_;
  int ranks_;
  plan::ScheduleConfig schedule_;
  models::ModelOptions model_;
  CpuTarget target_;
};

TEST(GoldenPlans, AreTheOnesUnderReview) {
  for (const std::string model :
       {"llama_tied_4h2_bf16", "qwen3_bias_8h8_mixed", "smollm2_two_layers"}) {
    const support::SparseCheckpoint checkpoint =
        model == "smollm2_two_layers" ? SmolLm2() : Tiny(model);
    ASSERT_NE(checkpoint.file, nullptr);
    for (const int ranks : {1, 2, 3}) {
      const PlanPrinter print(*checkpoint, ranks);
      const std::string text = print.Body("decode:1", 1) + print.Body("decode:4", 4) +
                               print.Body("prefill:512", 512) +
                               print.Head("head:4", 4, HeadMode::kGreedy, false) +
                               print.Head("head:4, logits hashed", 4, HeadMode::kGreedy, true) +
                               print.Head("head:4, sampled", 4, HeadMode::kSample, false);
      support::ExpectGolden(fmt::format("plans/{}.tp{}.txt", model, ranks), text);
    }
  }
}

// Each schedule before and after: what it puts in place of the two all-reduces of a layer.
TEST(GoldenPlans, OfSchedulesAreTheOnesUnderReview) {
  const support::SparseCheckpoint checkpoint = SmolLm2();
  ASSERT_NE(checkpoint.file, nullptr);
  for (const plan::Schedule schedule : plan::kSchedules) {
    plan::ScheduleConfig config;
    config.schedule = schedule;
    config.otp = 2;
    config.fc1_min_tokens = 512;
    config.sp_min_tokens = 512;
    std::string name(NameOf(schedule));
    std::replace(name.begin(), name.end(), '+', '_');
    const PlanPrinter print(*checkpoint, 4, config);
    support::ExpectGolden(fmt::format("plans/smollm2_two_layers.tp4.{}.txt", name),
                          print.Body("decode:1", 1) + print.Body("prefill:512", 512));
  }
}

// Experts where rows are cut: with a shared expert its gather stays, unless it is whole on every
// rank.
TEST(GoldenPlans, OfExpertsAreTheOnesUnderReview) {
  for (const std::string model : {"qwen3_moe_6h2_bf16", "qwen35_moe_r2_4h2_bf16"}) {
    const support::SparseCheckpoint checkpoint = Tiny(model);
    ASSERT_NE(checkpoint.file, nullptr);
    plan::ScheduleConfig config;
    config.schedule = plan::Schedule::kFc1;
    config.fc1_min_tokens = 1;
    const PlanPrinter print(*checkpoint, 4, config);
    support::ExpectGolden(fmt::format("plans/{}.tp4.fc1.txt", model),
                          print.Body("decode:1", 1) + print.Body("prefill:512", 512));
    if ((*checkpoint).config().shared_expert_intermediate_size == 0) continue;
    const PlanPrinter whole(*checkpoint, 4, config, {.whole_shared_expert = true});
    support::ExpectGolden(fmt::format("plans/{}.tp4.fc1.whole_shared.txt", model),
                          whole.Body("decode:1", 1) + whole.Body("prefill:512", 512));
  }
}

}  // namespace
}  // namespace weft::exec
