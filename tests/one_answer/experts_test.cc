// One answer wherever experts and shared experts are.
#include "one_answer/matrix.h"

namespace weft::one_answer {
namespace {

bool HasExperts(const TestModel& model) { return model.checkpoint->config().experts > 0; }

// Rows that go from their owners to the ranks of their experts, and come back as they were made or
// added up, under both schedules that cut rows; with the shared expert of some models too, where it
// is asked for by name.
TEST_P(OneAnswer, OverExchangedExperts) {
  const TestModel& model = ModelAt(GetParam());
  if (!HasExperts(model)) GTEST_SKIP() << "no experts";
  std::vector<int> sizes{2, 3};
  if (Full()) sizes = {2, 3, 4, 6, 8};
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks) + " exchange_experts");
    for (const plan::Schedule schedule : {plan::Schedule::kSp, plan::Schedule::kFc1}) {
      const bool combine = schedule == plan::Schedule::kSp;
      ExecConfig config = model.Config(ranks);
      config.schedule = ScheduleCell{schedule}.Config();
      config.compile.switches["combine_rows"] = combine ? graph::Switch::kOn : graph::Switch::kOff;
      config.compile.switches["exchange_experts"] = graph::Switch::kOff;
      const auto gathers = exec::ExplainPlan(*model.checkpoint, config, exec::PlanKind::kBody, 8);
      config.compile.switches["exchange_experts"] = graph::Switch::kOn;
      if (ranks == 3) config.threads = 2 * ranks;
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      EXPECT_NE(exec::InstanceOf(*executor).body_plan(8).fingerprint, gathers->fingerprint);
      const auto check = [&](const std::string& column, const Traffic& traffic) {
        Causes causes;
        const plan::FabricCounts before = executor->fabric_counts();
        line.Cell(std::string(plan::NameOf(schedule)) + column,
                  Difference(Ask(*executor, model.prompts, traffic, &causes), model.greedy));
        ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
        EXPECT_GT(causes.planned_calls["dispatch_rows"], 0);
        EXPECT_EQ(causes.planned_calls["combine_rows"] > 0, combine);
      };
      check("", {.together = true});
      check("/alone", {});  // steps of one row: all other ranks own none
      check("/chunk16", {.together = true, .budget = 16});
      std::map<std::string, int64_t> bytes;
      for (const auto& kind : executor->fabric_counts().kinds) bytes[kind.name] += kind.bytes;
      EXPECT_GT(bytes["dispatch_rows"], 0);
      EXPECT_EQ(bytes["combine_rows"] > 0, combine);
      ExpectWorkOfOwners(exec::InstanceOf(*executor), ranks);
    }
  }
}

// A shared expert that is whole on every rank, under every schedule; where rows are cut it crosses
// nowhere.
TEST_P(OneAnswer, OverAWholeSharedExpert) {
  const TestModel& model = ModelAt(GetParam());
  if (model.checkpoint->config().shared_expert_intermediate_size == 0)
    GTEST_SKIP() << "no shared expert";
  std::vector<int> sizes{2, 3};
  if (Full()) sizes = {2, 3, 4, 6, 8};
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks) + " whole shared expert");
    for (const plan::Schedule schedule :
         {plan::Schedule::kPlain, plan::Schedule::kSp, plan::Schedule::kFc1,
          plan::Schedule::kFc1Fc2, plan::Schedule::kGather}) {
      ExecConfig config = model.Config(ranks);
      config.schedule = ScheduleCell{schedule}.Config();
      config.whole_shared_expert = true;
      if (ranks == 2) config.compile.switches["exchange_experts"] = graph::Switch::kOn;
      if (ranks == 3) config.threads = 2 * ranks;
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      int steps = 0, cross = 0;
      for (const graph::Node& node : exec::InstanceOf(*executor).body_plan(8).graph.nodes) {
        if (!node.layer.ends_with(".shared")) continue;
        ++steps;
        cross += graph::IsExchange(node.op);
      }
      EXPECT_GT(steps, 0);
      EXPECT_EQ(cross, 0);
      Causes causes;
      const plan::FabricCounts before = executor->fabric_counts();
      line.Cell(
          std::string(plan::NameOf(schedule)),
          Difference(Ask(*executor, model.prompts, {.together = true}, &causes), model.greedy));
      ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
      line.Cell("alone", Difference(Ask(*executor, model.prompts, {}, &causes), model.greedy));
    }
  }
}

}  // namespace
}  // namespace weft::one_answer
