#include <gtest/gtest.h>

#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

TEST(ChainSteps, SmallStepsNeedNoWaitInSmallBuckets) {
  const auto waits = [](int32_t rows, int workers, int32_t each) {
    return Compiled(test::DecoderBody({}), 1, Body(rows), PlainTarget(workers, each))
        .waits(Wait::kRank);
  };
  EXPECT_LT(waits(1, 2, 8), waits(1, 2, 0)) << "chained";
  EXPECT_EQ(waits(9, 2, 8), waits(9, 2, 0)) << "too many rows to do twice";
  EXPECT_EQ(waits(1, 1, 8), 0) << "nobody to wait for";
  const Plan chained = Compiled(test::DecoderBody({}), 2, Body(1), PlainTarget(2));
  for (const Step& step : chained.steps) {
    const graph::Node& node = chained.graph.nodes[step.node];
    EXPECT_EQ(step.wait == Wait::kGroup, IsExchange(node.op))
        << "ranks meet where they exchange, nowhere else";
    // Nothing between the projections and the sum over heads waits.
    if (node.op == Op::kKvWrite || node.op == Op::kAttention) {
      EXPECT_EQ(step.wait, Wait::kNone);
    }
    if (step.split == Split::kEach) {
      EXPECT_TRUE(FactsOf(node.op).token_wise || node.op == Op::kGatherRows) << NameOf(node.op);
    }
  }
}

}  // namespace
}  // namespace weft::plan
