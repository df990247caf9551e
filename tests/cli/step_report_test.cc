#include "cli/step_report.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "exec/rank_executor.h"
#include "support/checkpoints.h"

namespace weft::cli {
namespace {

plan::Plan TinyPlan(int ranks, int32_t rows, plan::Schedule schedule = plan::Schedule::kPlain) {
  auto checkpoint = io::Checkpoint::Open(WEFT_TESTS_DIR "/models/data/llama_tied_4h2_bf16");
  WEFT_CHECK(checkpoint.ok(), "{}", checkpoint.status().message());
  exec::ExecConfig config;
  config.ranks = ranks;
  config.threads = ranks;
  config.schedule.schedule = schedule;
  config.schedule.sp_min_tokens = config.schedule.fc1_min_tokens = 1;
  auto plan = exec::ExplainPlan(**checkpoint, config, exec::PlanKind::kBody, rows);
  WEFT_CHECK(plan.ok(), "{}", plan.status().message());
  return std::move(plan).value();
}

const plan::Step& StepOf(const plan::Plan& plan, graph::Op op, int nth = 0) {
  for (const plan::Step& step : plan.steps) {
    if (plan.graph.nodes[step.node].op == op && nth-- == 0) return step;
  }
  WEFT_CHECK(false, "no {}", graph::NameOf(op));
}

Limit LimitOf(const std::string& name, double value) { return {name, 1, 0, value, value, "", ""}; }

TEST(WorkOf, CountsWeightsOnceAndRowsEach) {
  const plan::Plan plan = TinyPlan(1, 4);
  double weights = 0, products = 0;
  for (const plan::Step& step : plan.steps) {
    const graph::Node& node = plan.graph.nodes[step.node];
    if (node.op != graph::Op::kMatmul) continue;
    for (graph::ValueId id : OperandsOf(node).weights) {
      const graph::Value& w = plan.graph.value(id);
      products += static_cast<double>(w.dims[0].n * w.dims[1].n);
      weights += static_cast<double>(BytesOf(w.dtype, w.dims[0].n * w.dims[1].n));
    }
  }
  const plan::Step& matmul = StepOf(plan, graph::Op::kMatmul);
  const Work one = WorkOf(plan, matmul, {1, 1, 0}, 1), four = WorkOf(plan, matmul, {4, 1, 0}, 4);
  EXPECT_EQ(one.bytes, four.bytes);
  EXPECT_EQ(4 * one.bf16, four.bf16);
  EXPECT_GT(one.bf16, 0);
  EXPECT_EQ(one.int8 + one.fp32, 0);
  const Work attention = WorkOf(plan, StepOf(plan, graph::Op::kAttention), {4, 1, 9}, 4);
  const Work all = WorkOf(plan, {4, 1, 9}, 4);
  const int layers = 2;
  EXPECT_EQ(all.bytes, weights + layers * attention.bytes);
  EXPECT_EQ(all.operations(), 2 * 4 * products + layers * attention.operations());
}

TEST(WorkOf, AttentionReadsTheCacheOfEachSequence) {
  for (int ranks : {1, 2}) {
    const plan::Plan plan = TinyPlan(ranks, 4);
    const plan::Step& step = StepOf(plan, graph::Op::kAttention);
    const graph::Node& node = plan.graph.nodes[step.node];
    const int64_t q_width = plan.graph.value(node.in[0]).dims[1].n;
    int64_t kv_width = 0;  // a kv head that two ranks read is read twice
    for (int r = 0; r < ranks; ++r)
      kv_width += plan::LocalWidth(plan.graph, plan.graph.value(node.in[1]), r);
    const Work work = WorkOf(plan, step, {3, 1, 99}, 3);
    EXPECT_EQ(work.bytes, 3.0 * 100 * 2 * kv_width * 2) << "K and V of bf16, 100 positions";
    EXPECT_EQ(work.bf16, 3.0 * 100 * 4 * q_width);
    // Rows of a prompt see 1, 2, 3 and 4 keys.
    EXPECT_EQ(WorkOf(plan, step, {1, 4, 0}, 4).bf16, 10.0 * 4 * q_width);
  }
}

TEST(BoundOf, IsTheSlowerOfMemoryAndArithmetic) {
  MachineLimits limits;
  limits.limits = {LimitOf("read", 10), LimitOf("bf16", 100), LimitOf("int8", 400)};
  Work work;
  work.bytes = 1000;
  work.bf16 = 5000;
  Bound bound = BoundOf(work, limits, 1);
  EXPECT_EQ(bound.ns, 100);
  EXPECT_EQ(bound.by, "memory");
  work.int8 = 40000;
  bound = BoundOf(work, limits, 1);
  EXPECT_EQ(bound.ns, 150) << "both kinds take their time";
  EXPECT_EQ(bound.by, "int8");
  limits.limits.push_back(LimitOf("fp32", 200));
  EXPECT_EQ(BoundOf(work, limits, 1).ns, 125) << "bf16 by FMAs is faster here";
  EXPECT_EQ(BoundOf(work, {}, 1).ns, 0) << "nothing is known";
}

TEST(SiteOf, TellsTheStepsOfALayerApartAndNotTheLayers) {
  std::map<plan::Schedule, std::set<std::string>> mlps;
  for (const plan::Schedule schedule : plan::kSchedules) {
    const plan::Plan plan = TinyPlan(2, 4, schedule);
    std::map<std::string, std::set<std::string>> sites;  // by layer
    for (const plan::Step& step : plan.steps) {
      const graph::Node& node = plan.graph.nodes[step.node];
      const std::string site = SiteOf(plan.graph, node);
      EXPECT_TRUE(sites[node.layer].insert(site).second) << node.layer << ": " << site;
    }
    EXPECT_EQ(sites["L00.attn"], sites["L01.attn"]);
    EXPECT_EQ(sites["L00.mlp"], sites["L01.mlp"]);
    mlps[schedule] = sites["L00.mlp"];
  }
  using Names = std::set<std::string>;
  EXPECT_EQ(mlps[plan::Schedule::kPlain],
            (Names{"matmul gate", "silu_mul", "matmul down_proj", "all_reduce down_proj"}));
  EXPECT_EQ(mlps[plan::Schedule::kGather], (Names{"matmul gate", "silu_mul", "all_gather silu_mul",
                                                  "matmul down_proj", "all_gather down_proj"}));
}

TEST(ReportOf, SumsLikeStepsOverLayersAndWorkers) {
  const plan::Plan plan = TinyPlan(1, 1);
  const auto index = [&](graph::Op op, int nth) {
    return static_cast<int32_t>(&StepOf(plan, op, nth) - plan.steps.data());
  };
  const int32_t first = index(graph::Op::kAttention, 0), second = index(graph::Op::kAttention, 1);
  exec::StepTrace trace(2, 3);
  for (int round : {0, 1}) {
    trace.Clear();
    trace.Add(0, {&plan, first, 0, 1, true, 100, 110, 150});
    trace.Add(0, {&plan, second, 0, 1, false, 150, 150, 170});
    trace.Add(1, {&plan, first, 0, 1, true, 90, 110, 140});
    trace.Add(1, {&plan, second, 0, 1, false, 140, 140, 170});
    const TraceReport report = ReportOf(trace, 1, {1, 1, 7});
    ASSERT_EQ(report.ops.size(), 1u) << round;
    EXPECT_EQ(report.ops[0].op, "attention");
    EXPECT_EQ(report.ops[0].count, 2);
    EXPECT_EQ(report.ops[0].ns, (40 + 20 + 30 + 30) / 2.0);
    EXPECT_EQ(report.ops[0].wait_ns, (10 + 20) / 2.0);
    EXPECT_EQ(report.waits, 1);
    EXPECT_EQ(report.busy_ns + report.wait_ns, 75);
    EXPECT_EQ(report.ops[0].work.bytes, 2 * WorkOf(plan, plan.steps[first], {1, 1, 7}, 1).bytes);
  }
  EXPECT_EQ(trace.dropped(), 0);
  trace.Add(0, {&plan, first, 0, 1, false, 0, 0, 0});
  trace.Add(0, {&plan, first, 0, 1, false, 0, 0, 0});
  EXPECT_EQ(trace.dropped(), 1) << "memory for three events a worker";
}

}  // namespace
}  // namespace weft::cli
