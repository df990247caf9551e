#include "exec/cpu_target.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "support/checkpoints.h"

namespace weft::exec {
namespace {

plan::Plan PlanOf(const ExecConfig& config, int32_t rows) {
  const auto checkpoint =
      support::OpenCheckpoint(WEFT_TESTS_DIR "/models/data/llama_8h8_llama3_bf16");
  auto plan = ExplainPlan(*checkpoint, config, PlanKind::kBody, rows);
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

// An all-reduce of the model has 64 columns and one root on each of two ranks. So of each row a
// rank takes 256 bytes with direct, and with two_shot 192, where an odd row makes one of them take
// 64 more.
std::string MethodOf(const plan::CostTable& costs, int32_t rows, int threads = 2) {
  ExecConfig config = support::SmallConfig(2, threads);
  config.costs = costs;
  const plan::Plan plan = PlanOf(config, rows);
  return StepOf(plan, graph::Op::kAllReduce)->impl;
}

TEST(CpuTarget, TheCostTableSaysFromWhichSizeOnASecondMeetingPays) {
  const auto table = [](double two_shot_phase) {
    return plan::CostTable{
        {{"all_reduce", "direct", 2, 100, 400}, {"all_reduce", "two_shot", 2, two_shot_phase, 200}},
        {}};
  };
  // direct: 100 + 100 r; two_shot: 2 p + 37.5 r, and 12.5 if r is odd. It must save a tenth.
  for (const auto& [phase, first] :
       std::vector<std::pair<double, int>>{{10, 1}, {122, 4}, {200, 6}}) {
    for (int rows = 1; rows <= 8; ++rows) {
      EXPECT_EQ(MethodOf(table(phase), rows), rows < first ? "direct" : "two_shot")
          << phase << " ns a phase, " << rows << " rows";
    }
  }
  EXPECT_EQ(MethodOf(table(1e9), 64), "direct");
  EXPECT_EQ(MethodOf({{{"all_reduce", "two_shot", 2, 1e9, 1e9}}, {}}, 1), "two_shot")
      << "the only one whose cost is known";
  EXPECT_EQ(MethodOf({}, 64), "direct") << "nothing is known: the first that does not refuse";
}

TEST(CpuTarget, AnotherTableGivesAnotherFingerprintThoughTheChoiceIsTheSame) {
  const auto fingerprint = [](double pair_max_ns) {
    ExecConfig config = support::SmallConfig(2);
    config.costs.exchanges.push_back({"pair_max", "direct", 2, pair_max_ns, 1});
    return PlanOf(config, 4).fingerprint;
  };
  EXPECT_EQ(fingerprint(100), fingerprint(100));
  EXPECT_NE(fingerprint(100), fingerprint(101));
}

TEST(CpuTarget, WorkersThatShareAnExchangeMeetAndTakeAPartEach) {
  const auto table = [](double meeting) {
    return plan::CostTable{
        {{"all_reduce", "direct", 2, 100, 400}, {"all_reduce", "two_shot", 2, 60, 400}},
        {{2, meeting}}};
  };
  EXPECT_EQ(MethodOf(table(700), 8), "two_shot")
      << "720 of 900 ns; one worker a rank has nobody else to meet";
  EXPECT_EQ(MethodOf(table(500), 8, 8), "two_shot")
      << "a quarter of the bytes and a meeting: 770 ns; direct is done by each for itself";
  EXPECT_EQ(MethodOf(table(700), 8, 8), "direct") << "900 of 970 ns";
  EXPECT_EQ(MethodOf(table(0), 16, 8), "two_shot")
      << "16 rows are shared either way: 420 of 500 ns";
  EXPECT_EQ(MethodOf(table(700), 16, 8), "direct") << "1120 of 1200 ns is no tenth less";
}

TEST(CpuTarget, TheMethodsThatAreNotTakenTellTheirCosts) {
  ExecConfig config = support::SmallConfig(2);
  config.costs = {{{"all_reduce", "direct", 2, 100, 400}, {"all_reduce", "two_shot", 2, 195, 200}},
                  {}};
  const auto refusals = [&](int32_t rows) {
    std::string all;
    const plan::Plan plan = PlanOf(config, rows);
    for (const plan::Refused& r : StepOf(plan, graph::Op::kAllReduce)->refused)
      all += fmt::format("{} ({})\n", r.impl, r.reason);
    return all;
  };
  EXPECT_EQ(refusals(1),
            "two_shot (440 ns for 1 row, direct takes 200 ns)\nhalving (the cost table does not "
            "know it)\n");
  EXPECT_EQ(refusals(8),
            "direct (900 ns for 8 rows, two_shot takes 690 ns)\nhalving (the cost table does not "
            "know it)\n");
  EXPECT_EQ(refusals(5),
            "two_shot (590 ns for 5 rows, direct takes 600 ns; it must save 10 %)\nhalving (the "
            "cost table does not know it)\n");
  config.impl["all_reduce"] = "direct";
  EXPECT_EQ(refusals(8),
            "two_shot (--impl all_reduce=direct)\nhalving (--impl all_reduce=direct)\n");
}

TEST(CpuTarget, FamiliesNameTheirContracts) {
  for (const auto& [family, names] : CpuTarget::Families()) {
    if (family == "all_reduce" || family == "reduce_scatter")
      continue;  // compared with a contract in tests/comm
    EXPECT_EQ(names.back(), "ref") << family;
  }
}

}  // namespace
}  // namespace weft::exec
