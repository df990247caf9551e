#include "exec/cpu_target.h"

#include <gtest/gtest.h>

#include "support/checkpoints.h"

namespace weft::exec {
namespace {

plan::Plan PlanOf(const ExecConfig& config, int32_t rows) {
  const auto checkpoint = support::OpenCheckpoint(WEFT_TESTS_DIR "/models/data/llama_8h8_llama3_bf16");
  auto plan = ExplainPlan(*checkpoint, config, false, rows);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? std::move(plan).value() : plan::Plan{};
}

const plan::Step* StepOf(const plan::Plan& plan, graph::Op op) {
  for (const plan::Step& step : plan.steps) {
    if (plan.graph.nodes[step.node].op == op) return &step;
  }
  return nullptr;
}

TEST(CpuTarget, EveryStepHasAnImplementationAndEveryRefusalAReason) {
  ExecConfig config = support::SmallConfig(2);
  config.isa_max = kernels::Isa::kPortable;
  const plan::Plan plan = PlanOf(config, 8);
  EXPECT_EQ(plan.target, "cpu-portable");
  int refused = 0;
  for (const plan::Step& step : plan.steps) {
    EXPECT_FALSE(step.impl.empty());
    for (const plan::Refused& r : step.refused) {
      EXPECT_FALSE(r.reason.empty()) << r.impl;
      ++refused;
    }
  }
  EXPECT_GT(refused, 0) << "the vector kernels were not even asked";
  ASSERT_NE(StepOf(plan, graph::Op::kMatmul), nullptr);
  EXPECT_EQ(StepOf(plan, graph::Op::kMatmul)->impl, "ref");
}

TEST(CpuTarget, TheForcedImplementationIsTheOneThatRuns) {
  ExecConfig config = support::SmallConfig(1);
  config.impl["rms_norm"] = "ref";
  const plan::Plan plan = PlanOf(config, 8);
  for (const plan::Step& step : plan.steps) {
    const graph::Op op = plan.graph.nodes[step.node].op;
    if (op == graph::Op::kRmsNorm || op == graph::Op::kAddRmsNorm) {
      EXPECT_EQ(step.impl, "ref");
    }
  }
}

TEST(CpuTarget, ManyRowsAreReducedInTwoShots) {
  ExecConfig config = support::SmallConfig(2);
  config.tokens_max = 2048;
  const plan::Plan few = PlanOf(config, 1), many = PlanOf(config, 2048);
  ASSERT_NE(StepOf(few, graph::Op::kAllReduce), nullptr);
  EXPECT_EQ(StepOf(few, graph::Op::kAllReduce)->impl, "direct");
  EXPECT_EQ(StepOf(few, graph::Op::kAllReduce)->phases, 1);
  EXPECT_EQ(StepOf(many, graph::Op::kAllReduce)->impl, "two_shot");
  EXPECT_EQ(StepOf(many, graph::Op::kAllReduce)->phases, 2);
  EXPECT_LT(StepOf(many, graph::Op::kAllReduce)->cost.row_wire_bytes,
            StepOf(few, graph::Op::kAllReduce)->cost.row_wire_bytes);
}

TEST(CpuTarget, FamiliesNameTheirContracts) {
  for (const auto& [family, names] : CpuTarget::Families()) {
    if (family == "all_reduce") continue;  // its methods are compared with a contract in tests/comm
    EXPECT_EQ(names.back(), "ref") << family;
  }
}

}  // namespace
}  // namespace weft::exec
