// Memory is shared as far as the laws of a plan allow, and no further.
#include <gtest/gtest.h>

#include <array>

#include "plan/verify.h"
#include "support/plans.h"
#include "support/random_graph.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

template <typename Visit>
void ForEveryPlan(const Visit& visit) {
  for (const DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int workers : {1, 2, 5}) {
        for (const int32_t rows : {1, 8, 9, 64}) {
          PlainTarget target(workers);
          target.reduce_phases = 1 + (ranks + workers) % 2;
          for (const bool eager : {false, true}) {
            visit(Compiled(test::DecoderBody(shape), ranks, Body(rows), target, {.eager = eager}));
            for (const HeadMode mode : {HeadMode::kGreedy, HeadMode::kSample}) {
              visit(Compiled(test::DecoderHead(shape, mode == HeadMode::kSample, rows == 8), ranks,
                             {Bucket::Kind::kHead, rows, rows, mode, rows == 8}, target,
                             {.eager = eager}));
            }
          }
        }
      }
    }
  }
}

TEST(Plan, KeepsItsLawsEverywhere) {
  int plans = 0;
  ForEveryPlan([&](const Plan& plan) {
    ++plans;
    const Status status = VerifyPlan(plan);
    EXPECT_TRUE(status.ok()) << status.message() << "\n" << Print(plan);
  });
  EXPECT_GT(plans, 1000);
}

// The executor turns q and k where they stand, and residuals need no second copy.
TEST(Arena, TurnsHeadsInPlaceInEveryDecoder) {
  int ropes = 0;
  ForEveryPlan([&](const Plan& plan) {
    for (const graph::Node& node : plan.graph.nodes) {
      if (node.op != Op::kRope) continue;
      ++ropes;
      const Layout &from = plan.layouts[node.in[0]], &to = plan.layouts[node.out[0]];
      EXPECT_TRUE(from.region == to.region && from.offset == to.offset) << Print(plan);
    }
  });
  EXPECT_GT(ropes, 1000);
}

// What no model does, a rewrite may do one day: the layout must not live by what decoders have in
// common. Random values are read late, often, by exchanges and by workers who run ahead.
TEST(Arena, KeepsTheLawsOfRandomGraphs) {
  constexpr int kGraphs = 3000;
  int in_place = 0, not_in_place = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const graph::Graph source = test::RandomBody(&rng).Make(1 + static_cast<int>(rng.Below(12)));
    const int ranks = 1 + static_cast<int>(rng.Below(6));
    PlainTarget target(1 + static_cast<int>(rng.Below(4)), static_cast<int32_t>(rng.Below(2)) * 8);
    target.reduce_phases = 1 + static_cast<int>(rng.Below(2));
    const Plan plan = Compiled(source, ranks, Body(std::array{1, 4, 40}[rng.Below(3)]), target,
                               {.eager = rng.Below(4) == 0});
    const Status status = VerifyPlan(plan);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message() << "\n" << Print(plan);
    for (const graph::Node& node : plan.graph.nodes) {
      if (node.op != Op::kAddRmsNorm && node.op != Op::kRope) continue;
      const Layout &from = plan.layouts[node.in[0]], &to = plan.layouts[node.out[0]];
      ++(from.region == to.region && from.offset == to.offset ? in_place : not_in_place);
    }
  }
  EXPECT_GT(in_place, kGraphs / 2) << "else the test says little";
  EXPECT_GT(not_in_place, kGraphs / 20);
}

TEST(Arena, IsSharedByValuesThatDoNotMeet) {
  const auto bytes = [](int layers) {
    return Compiled(test::DecoderBody({.layers = layers}), 1, Body(16), PlainTarget(1))
        .rank_arena_bytes;
  };
  EXPECT_EQ(bytes(2), bytes(8)) << "a layer reuses what the one before it had";
}

}  // namespace
}  // namespace weft::plan
