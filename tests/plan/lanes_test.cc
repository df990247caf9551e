#include "plan/lanes.h"

#include <gtest/gtest.h>

#include "plan/verify.h"
#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Node;
using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

const DecoderShape kTwoLanes{.layers = 3, .experts = 6, .shared_expert = true};

CompileOptions Woven(bool interleave) {
  CompileOptions options;
  options.interleave = interleave;
  return options;
}

// What has been asked of the ranks in layers that have routed experts and a shared one.
TEST(InterleaveLanes, OneMeetingCoversRoutedAndSharedExperts) {
  for (const int workers : {1, 2}) {
    const Plan apart =
        Compiled(test::DecoderBody(kTwoLanes), 2, Body(1), PlainTarget(workers), Woven(false));
    const Plan woven =
        Compiled(test::DecoderBody(kTwoLanes), 2, Body(1), PlainTarget(workers), Woven(true));
    EXPECT_EQ(apart.waits(Wait::kGroup), 3 * kTwoLanes.layers) << "o_proj, routed, shared";
    EXPECT_EQ(woven.waits(Wait::kGroup), 2 * kTwoLanes.layers);
    EXPECT_EQ(apart.steps.size(), woven.steps.size());
    EXPECT_LE(woven.waits(Wait::kRank), apart.waits(Wait::kRank));
  }
}

TEST(InterleaveLanes, TheSharedExpertsProductsStandBesideTheRoutedOnes) {
  const Plan apart =
      Compiled(test::DecoderBody(kTwoLanes), 1, Body(1), PlainTarget(2), Woven(false));
  const Plan woven =
      Compiled(test::DecoderBody(kTwoLanes), 1, Body(1), PlainTarget(2), Woven(true));
  EXPECT_EQ(apart.waits(Wait::kRank) - woven.waits(Wait::kRank), 2 * kTwoLanes.layers);
  // Between the router's product and the routes of layer 1 stands the shared expert's product, on
  // lane 1.
  bool router = false, beside = false;
  for (const Step& step : woven.steps) {
    const Node& node = woven.graph.nodes[step.node];
    if (node.op == Op::kRoute && router) break;
    if (node.layer == "L01.moe" && node.op == Op::kMatmul) router = true;
    if (router && node.layer == "L01.shared" && node.op == Op::kMatmul) {
      beside = true;
      EXPECT_EQ(step.lane, 1);
    }
  }
  EXPECT_TRUE(beside);
}

// Operands are made before they are read, and a version is read before it is written over: the
// compiler verifies the graph in its new order, for every shape.
TEST(InterleaveLanes, EveryOrderIsLawfulAndWaitsNoMore) {
  for (const DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {1, 2, 3}) {
      for (const int32_t rows : {1, 8, 64}) {
        const Plan apart =
            Compiled(test::DecoderBody(shape), ranks, Body(rows), PlainTarget(2), Woven(false));
        const Plan woven =
            Compiled(test::DecoderBody(shape), ranks, Body(rows), PlainTarget(2), Woven(true));
        EXPECT_TRUE(VerifyPlan(woven).ok()) << VerifyPlan(woven).message();
        EXPECT_LE(woven.waits(Wait::kGroup), apart.waits(Wait::kGroup));
        EXPECT_LE(woven.waits(Wait::kRank), apart.waits(Wait::kRank));
      }
    }
  }
}

TEST(InterleaveLanes, ADenseLayerHasOneLane) {
  const Plan plan = Compiled(test::DecoderBody({}), 2, Body(1), PlainTarget(2));
  for (const Step& step : plan.steps) EXPECT_EQ(step.lane, 0);
}

TEST(InterleaveLanes, EagerPlansKeepTheModelsOrder) {
  CompileOptions eager;
  eager.eager = true;
  for (const Step& step :
       Compiled(test::DecoderBody(kTwoLanes), 2, Body(1), PlainTarget(2), eager).steps)
    EXPECT_EQ(step.lane, 0);
}

}  // namespace
}  // namespace weft::plan
