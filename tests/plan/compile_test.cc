// What a plan counts, and what it says when nothing can do an op.
#include <gtest/gtest.h>

#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

TEST(Plan, RefusesWithEveryReasonWhatNothingCanDo) {
  PlainTarget target(1);
  target.refused = {Op::kAttention};
  auto plan = Compile(test::Placed(test::DecoderBody({}), 1), Body(1), target, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      plan.status().message(),
      "attention at L00.attn: no implementation on plain (loop: told to; ref: told to as well)");
}

TEST(Cost, CountsWeightsFlopsRowsAndWire) {
  const DecoderShape shape{.layers = 1};  // hidden 64, heads 6 x 16, width 96, bfloat16
  const Plan plan = Compiled(test::DecoderBody(shape), 2, Body(1), PlainTarget(1));
  int64_t weights = 0, flops = 0, wire = 0;
  for (const Step& step : plan.steps) {
    weights += step.cost.weight_bytes;
    flops += step.cost.row_flops;
    wire += step.cost.row_wire_bytes;
    const graph::Node& node = plan.graph.nodes[step.node];
    if (node.op == Op::kSiluMul) {
      EXPECT_EQ(step.cost.row_bytes, 3 * 96 * 2) << "two read, one written, bfloat16, both halves";
    }
    if (node.op == Op::kRmsNorm) {
      EXPECT_EQ(step.cost.row_bytes, 2 * 2 * 64 * 2) << "on both ranks";
    }
    if (node.op == Op::kAllReduce) {
      EXPECT_GT(step.partials, 0);
    }
  }
  // Of three kv heads for six query heads the middle one is on both ranks.
  const int64_t elements = 64 * 96 + 2 * 64 * (48 + 16) + 96 * 64 + 3 * 64 * 96;
  EXPECT_EQ(weights, 2 * elements);
  EXPECT_EQ(flops, 2 * elements);
  // o: six heads are six leaves, 3 | 3: Tree(0,6) splits at 4, so rank 0 holds {0,1},{2} and rank 1
  // holds {3},{4,5}. down: three leaves, 1 | 2: {0} and {1},{2}.
  EXPECT_EQ(wire, 4 * 64 * (2 + 2) + 4 * 64 * (1 + 2));
}

}  // namespace
}  // namespace weft::plan
