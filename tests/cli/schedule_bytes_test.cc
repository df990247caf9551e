#include "cli/schedule_bytes.h"

#include <gtest/gtest.h>

#include "exec/rank_executor.h"
#include "support/checkpoints.h"
#include "support/sparse_checkpoint.h"

namespace weft::cli {
namespace {

using plan::Schedule;

// The shapes and formats of SmolLM2-135M: nine heads and three kv heads, int8 rows into every
// product.
support::SparseCheckpoint SmolLm2() {
  const support::DecoderSpec spec{.layers = 3,
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
support::SparseCheckpoint Tiny() {
  return {nullptr, support::OpenCheckpoint(WEFT_TESTS_DIR "/models/data/llama_8h8_llama3_bf16")};
}

plan::Plan PlanOf(const io::Checkpoint& checkpoint, int ranks, const plan::ScheduleConfig& schedule,
                  int32_t rows, const std::string& method = "") {
  exec::ExecConfig config = support::SmallConfig(ranks);
  config.tokens_max = rows;
  config.schedule = schedule;
  config.schedule.sp_min_tokens = config.schedule.fc1_min_tokens = 1;
  if (!method.empty()) config.impl["all_reduce"] = method;
  auto plan = exec::ExplainPlan(checkpoint, config, exec::PlanKind::kBody, rows);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? std::move(plan).value() : plan::Plan{};
}

void CheckAll(const io::Checkpoint& checkpoint, int ranks, int32_t rows,
              const std::string& method) {
  const plan::Plan plain = PlanOf(checkpoint, ranks, {}, rows, method);
  const auto layer = MiddleLayerOf(plain);
  ASSERT_TRUE(layer.has_value());
  for (const Schedule schedule : plan::kSchedules) {
    const bool fc2 = schedule == Schedule::kFc2 || schedule == Schedule::kFc1Fc2;
    for (int otp = 1; otp < (fc2 ? ranks : 2); ++otp) {
      if (ranks % otp != 0) continue;
      plan::ScheduleConfig config;
      config.schedule = schedule;
      config.otp = otp;
      const plan::Plan plan = PlanOf(checkpoint, ranks, config, rows, method);
      EXPECT_EQ(plan.schedule, plan::NameOf(schedule));
      EXPECT_EQ(static_cast<double>(PlannedBytes(plan, layer->name, rows)),
                FormulaBytes(*layer, schedule, ranks, otp, method, method, rows))
          << plan::Describe(config) << " on " << ranks << " ranks, all-reduce " << method;
      EXPECT_GE(PlannedBytes(plan, rows), PlannedBytes(plan, layer->name, rows));
    }
  }
}

TEST(ScheduleBytes, ThePlanMovesWhatTheFormulasSay) {
  const support::SparseCheckpoint smol = SmolLm2(), tiny = Tiny();
  for (const char* method : {"direct", "two_shot"}) {
    for (const int ranks : {2, 4, 8}) {
      CheckAll(*tiny.file, ranks, 64, method);
      CheckAll(*smol.file, ranks, 512, method);
    }
    CheckAll(*smol.file, 3, 513, method);
    CheckAll(*smol.file, 6, 768, method);
  }
}

TEST(ScheduleBytes, TheMiddleLayerIsToldByItsWidths) {
  const support::SparseCheckpoint smol = SmolLm2();
  const auto layer = MiddleLayerOf(PlanOf(*smol.file, 2, {}, 512));
  ASSERT_TRUE(layer.has_value());
  EXPECT_EQ(layer->name, "L01");
  EXPECT_EQ(layer->hidden, 576);
  EXPECT_EQ(layer->heads, 576);
  EXPECT_EQ(layer->ffn, 1536);
  EXPECT_EQ(layer->heads_leaves.count(), 9);
  EXPECT_EQ(layer->ffn_leaves.count(), 16);
  EXPECT_EQ(layer->qkv_in, 1.25);
  EXPECT_EQ(layer->down_in, 1.25);
  EXPECT_EQ(layer->rounded, 2);
}

TEST(ScheduleBytes, OneRankHasNoLayerThatExchanges) {
  const support::SparseCheckpoint tiny = Tiny();
  EXPECT_FALSE(MiddleLayerOf(PlanOf(*tiny.file, 1, {}, 64)).has_value());
}

}  // namespace
}  // namespace weft::cli
