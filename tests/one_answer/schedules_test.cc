// One answer under every communication schedule, and with exchanges inside of products.
#include "one_answer/matrix.h"

namespace weft::one_answer {
namespace {

// The collectives that a schedule is known for are in its plans, and those that it replaces are
// not.
void ExpectCollectivesOf(plan::Schedule schedule, const plan::Plan& plan) {
  std::map<graph::Op, int> count;
  const bool gather = schedule == plan::Schedule::kGather;
  for (const graph::Node& node : plan.graph.nodes) {
    // Experts are whole on a rank: what they make of a token is summed in every schedule.
    if (gather && node.op == graph::Op::kAllReduce &&
        plan::MakerOfRoots(plan.graph, node.in[0]).op == graph::Op::kCombine)
      continue;
    ++count[node.op];
  }
  const bool rows = schedule == plan::Schedule::kSp || schedule == plan::Schedule::kFc1 ||
                    schedule == plan::Schedule::kFc1Fc2;
  const bool fc2 = schedule == plan::Schedule::kFc2 || schedule == plan::Schedule::kFc1Fc2;
  EXPECT_EQ(count[graph::Op::kAllReduce] > 0, !rows && !gather);
  EXPECT_EQ(count[graph::Op::kReduceScatter] > 0, rows || fc2);
  EXPECT_EQ(count[graph::Op::kAllToAll] > 0, fc2);
  EXPECT_EQ(count[graph::Op::kAllGather] > 0, rows || gather || fc2);
}

TEST_P(OneAnswerInDepth, OverSchedules) {
  const TestModel& model = ModelAt(GetParam());
  std::vector<int> sizes{2, 3, 4, 6};
  if (Large() && !Full()) sizes = {2, 3};
  if (Full()) sizes.push_back(8);
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks));
    for (const ScheduleCell& cell : SchedulesOn(ranks)) {
      ExecConfig config = model.Config(ranks);
      config.schedule = cell.Config();
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      ExpectCollectivesOf(cell.schedule, exec::InstanceOf(*executor).body_plan(1));
      ExpectCollectivesOf(cell.schedule, exec::InstanceOf(*executor).body_plan(128));
      Causes causes;
      const plan::FabricCounts before = executor->fabric_counts();
      const Answers answers =
          Ask(*executor, model.prompts, {.together = true, .budget = ranks == 3 ? 16 : 0}, &causes);
      line.Cell(cell.Name(), Difference(answers, model.greedy));
      ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
      EXPECT_GE(causes.segments_max, ranks == 3 ? 2 : 8);
      ExpectWorkOfOwners(exec::InstanceOf(*executor), ranks);
    }
    ExecConfig config = model.Config(ranks);
    config.schedule.automatic = true;
    for (plan::ExchangeCost& cost : config.costs.exchanges)
      cost.phase_ns = 0;  // bytes decide, at any size
    const auto executor = support::MakeExecutor(*model.checkpoint, config);
    ASSERT_NE(executor, nullptr);
    line.Cell("auto",
              Difference(Ask(*executor, model.prompts, {.together = true}, nullptr), model.greedy));
    std::set<std::string> taken;
    for (const exec::BoundPlan& body : exec::InstanceOf(*executor).bodies())
      taken.insert(body.plan.schedule);
    EXPECT_NE(taken, std::set<std::string>{"plain"});
  }
}

// Steps that exchange while they compute, against answers of steps of their own; two workers a rank
// too.
TEST_P(OneAnswer, OverFusedExchanges) {
  const TestModel& model = ModelAt(GetParam());
  std::vector<int> sizes{2, 3};
  if (Full()) sizes = {2, 3, 4, 6, 8};
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks) + " fused");
    for (const int workers : {1, 2}) {
      for (const plan::Schedule schedule : {plan::Schedule::kPlain, plan::Schedule::kSp}) {
        ExecConfig config = model.Config(ranks);
        config.threads = ranks * workers;
        config.schedule.schedule = schedule;
        config.schedule.sp_min_tokens = 64;
        for (const char* pass : {"fuse_matmul_all_reduce_norm", "fuse_matmul_reduce_scatter"}) {
          config.compile.switches[pass] = graph::Switch::kOn;
        }
        const auto executor = support::MakeExecutor(*model.checkpoint, config);
        ASSERT_NE(executor, nullptr);
        const auto count = [&](int32_t rows, graph::Op op) {
          const graph::Graph& g = exec::InstanceOf(*executor).body_plan(rows).graph;
          return std::count_if(g.nodes.begin(), g.nodes.end(),
                               [&](const graph::Node& n) { return n.op == op; });
        };
        EXPECT_GT(count(1, graph::Op::kMatmulAllReduceNorm), 0);
        EXPECT_EQ(count(128, graph::Op::kMatmulReduceScatter) > 0, schedule == plan::Schedule::kSp);
        Causes causes;
        const plan::FabricCounts before = executor->fabric_counts();
        const Answers alone = Ask(*executor, model.prompts, {}, &causes);
        ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
        const std::string name =
            std::string(plan::NameOf(schedule)) + "/" + std::to_string(workers);
        line.Cell(name, Difference(alone, model.greedy));
        line.Cell(
            name + "/together",
            Difference(Ask(*executor, model.prompts, {.together = true}, &causes), model.greedy));
        ExpectWorkOfOwners(exec::InstanceOf(*executor), ranks);
      }
    }
  }
}

// Prefills of the lengths at which upstream's thresholds turn, with those thresholds: a schedule is
// taken from its row count on and not below it.
TEST_P(OneAnswerInDepth, OverSchedulesAtTheirThresholds) {
  if (Large() && !Full()) GTEST_SKIP() << "a thousand tokens on the real model; WEFT_P1=full";
  const TestModel& model = ModelAt(GetParam());
  std::vector<Prompt> prompts;
  Rng rng(7);
  for (const int length : {1, 2, 7, 64, 999, 1000, 1001, 1024}) {
    Prompt p{.name = "len" + std::to_string(length), .max_tokens = 2};
    for (int i = 0; i < length; ++i)
      p.ids.push_back(static_cast<int32_t>(rng.Below(model.checkpoint->config().vocab_size)));
    prompts.push_back(std::move(p));
  }
  const auto with = [&](int ranks, const plan::ScheduleConfig& schedule) {
    ExecConfig config = model.Config(ranks);
    config.tokens_max = config.positions_max = 1040;
    if (model.checkpoint->config().max_position < config.positions_max) config.positions_max = 0;
    config.schedule = schedule;
    return support::MakeExecutor(*model.checkpoint, config);
  };
  if (model.checkpoint->config().max_position < 1030) GTEST_SKIP() << "its positions end before";
  const auto one = with(1, {});
  ASSERT_NE(one, nullptr);
  const Answers expected = Ask(*one, prompts, {}, nullptr);
  Line line(model, "tp=2 prefill 1..1024");
  for (const plan::Schedule schedule :
       {plan::Schedule::kSp, plan::Schedule::kFc1, plan::Schedule::kFc1Fc2}) {
    plan::ScheduleConfig config;
    config.schedule = schedule;
    const auto executor = with(2, config);
    ASSERT_NE(executor, nullptr);
    const exec::ModelInstance& instance = exec::InstanceOf(*executor);
    const auto scatters = [&](int32_t rows) {
      int count = 0;
      for (const graph::Node& n : instance.body_plan(rows).graph.nodes) {
        // Owners that fetch their rows end where a scatter ends.
        if ((n.op == graph::Op::kReduceScatter || n.op == graph::Op::kCombineRows) &&
            (n.layer.ends_with("mlp") || n.layer.ends_with("moe")))
          ++count;
      }
      return count;
    };
    EXPECT_EQ(scatters(999), 0);
    EXPECT_EQ(scatters(1000) > 0, schedule == plan::Schedule::kSp);
    EXPECT_GT(scatters(1001), 0);
    EXPECT_GT(scatters(1024), 0);
    line.Cell(std::string(plan::NameOf(schedule)),
              Difference(Ask(*executor, prompts, {}, nullptr), expected));
  }
}

}  // namespace
}  // namespace weft::one_answer
