#include "cli/coverage.h"

#include <gtest/gtest.h>

#include "support/checkpoints.h"

namespace weft::cli {
namespace {

Coverage Of(kernels::Isa isa) {
  const auto checkpoint =
      support::OpenCheckpoint(WEFT_TESTS_DIR "/models/data/qwen35_moe_r2_4h2_bf16");
  exec::ExecConfig config = support::SmallConfig(2);
  config.isa_max = isa;
  config.draft_head = true;
  config.draft_tokens = 2;
  const auto instance = exec::ModelInstance::Plan(*checkpoint, config);
  EXPECT_TRUE(instance.ok()) << instance.status().message();
  return CoverageOf(**instance);
}

TEST(Coverage, CountsEveryStepOfEveryPlan) {
  const Coverage c = Of(kernels::Isa::kAvx2);
  // Buckets of bodies, four heads, drafts and their heads.
  EXPECT_GT(c.plans, 60);
  int steps = 0;
  for (const auto& [name, op] : c.ops) {
    for (const auto& [impl, count] : op.steps) steps += count;
  }
  EXPECT_EQ(steps, c.steps);
  for (const char* op : {"matmul", "gated_delta", "expert_matmul", "concat", "all_reduce"})
    EXPECT_TRUE(c.ops.contains(op)) << op;
  EXPECT_NE(c.Text().find("steps of"), std::string::npos);
}

TEST(Coverage, AContractThatStandsInSaysWhy) {
  const Coverage portable = Of(kernels::Isa::kPortable), avx2 = Of(kernels::Isa::kAvx2);
  const auto stand_ins = [](const Coverage& c) {
    int n = 0;
    for (const auto& [name, op] : c.ops) n += op.stand_ins;
    return n;
  };
  EXPECT_GT(stand_ins(portable), stand_ins(avx2));
  EXPECT_FALSE(portable.ops.at("matmul").refusals.empty());
  EXPECT_NE(portable.Text().find("the contract stands in"), std::string::npos) << portable.Text();
}

}  // namespace
}  // namespace weft::cli
