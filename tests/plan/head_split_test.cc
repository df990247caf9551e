#include "plan/head_split.h"

#include <gtest/gtest.h>

#include <tuple>

#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

// Steps of the first layer's attention that are shared out by heads.
std::map<Op, int> SplitOps(const Plan& plan) {
  std::map<Op, int> ops;
  for (const Step& step : plan.steps) {
    const graph::Node& node = plan.graph.nodes[step.node];
    if (step.split == Split::kHeads && node.layer == "L00.attn") ++ops[node.op];
  }
  return ops;
}

TEST(SplitByHeads, TakesWhatWorksOnEachHeadByItself) {
  const DecoderShape plain{.heads = 8, .kv_heads = 4},
      normed{.heads = 8, .kv_heads = 4, .head_norms = true};
  const std::map<Op, int> all{{Op::kRope, 2}, {Op::kKvWrite, 1}, {Op::kAttention, 1}};
  std::map<Op, int> with_norms = all;
  with_norms[Op::kRmsNorm] = 2;
  EXPECT_EQ(SplitOps(Compiled(test::DecoderBody(plain), 1, Body(4), PlainTarget(2))), all);
  EXPECT_EQ(SplitOps(Compiled(test::DecoderBody(normed), 1, Body(4), PlainTarget(2))), with_norms);
  EXPECT_TRUE(SplitOps(Compiled(test::DecoderBody(plain), 1, Body(4), PlainTarget(1))).empty());
  EXPECT_TRUE(SplitOps(Compiled(test::DecoderBody(plain), 1, Body(9), PlainTarget(2))).empty());
}

TEST(SplitByHeads, LeavesANormOverSeveralHeads) {
  const DecoderShape shape{.heads = 8, .kv_heads = 8, .weights = DType::kQ8_0, .head_norms = true};
  graph::Graph source = test::DecoderBody(shape);
  for (graph::Node& node : source.nodes) {
    if (node.op != Op::kRmsNorm ||
        source.value(node.out[0]).name.find("q_norm") == std::string::npos) {
      continue;
    }
    node.Set("groups", int64_t{4});  // two heads of 16 each: an atom of this format
    node.Set("width", int64_t{32});
    source.value(node.in[1]).dims[0].n = 32;
  }
  const Plan plan = Compiled(source, 2, Body(4), PlainTarget(2));
  EXPECT_EQ(SplitOps(plan),
            (std::map<Op, int>{
                {Op::kRope, 2}, {Op::kRmsNorm, 1}, {Op::kKvWrite, 1}, {Op::kAttention, 1}}));
}

TEST(SplitByHeads, LeavesAttentionToItsUnitsWhereHeadsDoNotDivide) {
  std::map<Op, int> without{{Op::kRope, 2}, {Op::kKvWrite, 1}};
  EXPECT_EQ(SplitOps(Compiled(test::DecoderBody({}), 1, Body(4), PlainTarget(2))), without)
      << "three kv heads, two workers";
  without[Op::kAttention] = 1;
  EXPECT_EQ(SplitOps(Compiled(test::DecoderBody({}), 1, Body(1), PlainTarget(2))), without)
      << "one row has no better units";
}

// A recurrence with what comes before and behind it, in one worker's hands.
TEST(SplitByHeads, TakesARecurrenceWhereWorkersDivideItsKeyHeads) {
  const auto taken = [](const DecoderShape& shape, int ranks, int32_t rows, int workers) {
    const Plan plan = Compiled(test::DecoderBody(shape), ranks, Body(rows), PlainTarget(workers));
    std::map<Op, int> ops;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const Step& step = plan.steps[s];
      const graph::Node& node = plan.graph.nodes[s];
      if (node.layer != "L00.gdn" || step.split != Split::kHeads) continue;
      ++ops[node.op];
      // None waits for another.
      EXPECT_EQ(step.wait,
                node.op == Op::kCausalConv && ops[node.op] == 1 ? Wait::kRank : Wait::kNone)
          << NameOf(node.op) << "\n"
          << Print(plan);
    }
    return ops;
  };
  const DecoderShape shape{.key_heads = 4, .value_heads = 8}, odd{.key_heads = 3, .value_heads = 6};
  const std::map<Op, int> all{{Op::kCausalConv, 3}, {Op::kGatedDelta, 1}, {Op::kGatedRmsNorm, 1}},
      none;
  EXPECT_EQ(taken(shape, 1, 1, 2), all);
  EXPECT_EQ(taken(shape, 1, 4, 4), all);
  EXPECT_EQ(taken(shape, 2, 4, 2), all);
  EXPECT_EQ(taken(shape, 1, 9, 2), none) << "arithmetic decides, and units are finer";
  EXPECT_EQ(taken(shape, 1, 4, 3), none);
  EXPECT_EQ(taken(odd, 1, 1, 2), none);
  EXPECT_EQ(taken(odd, 1, 1, 3), all);
}

TEST(HeadsOf, WorkersOfARecurrenceHaveKeysAndTheValuesThatReadThem) {
  for (const auto& [keys, values, ranks] :
       {std::tuple{4, 4, 1}, {4, 8, 2}, {4, 12, 1}, {8, 16, 2}}) {
    const DecoderShape shape{.key_heads = keys, .value_heads = values};
    const Plan plan = Compiled(test::DecoderBody(shape), ranks, Body(2), PlainTarget(2));
    int steps = 0;
    for (const Step& step : plan.steps) {
      const graph::Node& node = plan.graph.nodes[static_cast<size_t>(step.node)];
      if (node.op != Op::kGatedDelta) continue;
      ++steps;
      EXPECT_EQ(HeadDimOf(plan, step, node.in[2]), shape.key_dim);
      EXPECT_EQ(HeadDimOf(plan, step, node.out[0]), shape.value_dim);
      for (int rank = 0; rank < ranks; ++rank) {
        int64_t next_key = 0, next_value = 0;
        for (int worker = 0; worker < 2; ++worker) {
          const WorkerHeads own = HeadsOf(plan, step, rank, worker);
          EXPECT_EQ(own.kv_begin, next_key);
          EXPECT_EQ(own.q_begin, next_value);
          EXPECT_EQ((own.q_end - own.q_begin) * keys, (own.kv_end - own.kv_begin) * values);
          next_key = own.kv_end;
          next_value = own.q_end;
        }
        EXPECT_EQ(next_key * shape.key_dim,
                  LocalWidth(plan.graph, plan.graph.value(node.in[2]), rank));
        EXPECT_EQ(next_value * shape.value_dim,
                  LocalWidth(plan.graph, plan.graph.value(node.in[3]), rank));
      }
    }
    EXPECT_GT(steps, 0);
  }
}

TEST(HeadsOf, WorkersShareARanksHeadsAndQueriesFollowTheirKeys) {
  for (const DecoderShape& shape :
       {DecoderShape{.heads = 9, .kv_heads = 3}, DecoderShape{.heads = 8, .kv_heads = 8},
        DecoderShape{.heads = 12, .kv_heads = 2}, DecoderShape{.heads = 4, .kv_heads = 1}}) {
    const int64_t group = shape.heads / shape.kv_heads;
    for (const int ranks : {1, 2, 3, 5}) {
      for (const int workers : {2, 3, 4}) {
        const Plan plan = Compiled(test::DecoderBody(shape), ranks, Body(1), PlainTarget(workers));
        for (const Step& step : plan.steps) {
          const graph::Node& attention = plan.graph.nodes[step.node];
          if (attention.op != Op::kAttention) continue;
          ASSERT_EQ(step.split, Split::kHeads);
          EXPECT_TRUE(HoldsQueries(plan, step, attention.in[0]));
          EXPECT_FALSE(HoldsQueries(plan, step, attention.in[1]));
          int64_t queries = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            const graph::Value &q = plan.graph.value(attention.in[0]),
                               &kv = plan.graph.value(attention.in[1]);
            const int64_t q_first =
                OwnedElements(plan.graph.tables, q.dims[1].table, rank, ranks).begin /
                shape.head_dim;
            const int64_t kv_first =
                OwnedElements(plan.graph.tables, kv.dims[1].table, rank, ranks).begin /
                shape.head_dim;
            int64_t next_q = 0, next_kv = 0;
            for (int worker = 0; worker < workers; ++worker) {
              const WorkerHeads own = HeadsOf(plan, step, rank, worker);
              EXPECT_EQ(own.q_begin, next_q);
              EXPECT_EQ(own.kv_begin, next_kv);
              for (int64_t h = own.q_begin; h < own.q_end; ++h) {
                const int64_t reads = (q_first + h) / group - kv_first;
                EXPECT_TRUE(own.kv_begin <= reads && reads < own.kv_end)
                    << "query head " << h << " of rank " << rank << " of " << ranks << ", worker "
                    << worker << " of " << workers;
              }
              next_q = own.q_end;
              next_kv = own.kv_end;
            }
            EXPECT_EQ(next_q * shape.head_dim, LocalWidth(plan.graph, q, rank));
            EXPECT_EQ(next_kv * shape.head_dim, LocalWidth(plan.graph, kv, rank));
            queries += next_q;
          }
          EXPECT_EQ(queries, shape.heads);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::plan
