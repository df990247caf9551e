#include "plan/post_exchanges.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/verify.h"
#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

const DecoderShape kExperts{.layers = 3, .experts = 6, .shared_expert = true};

CompileOptions Between(bool shared_memory, bool post) {
  CompileOptions options;
  options.shared_memory = shared_memory;
  options.post_exchanges = post;
  return options;
}

int Posted(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                        [](const Step& s) { return s.posted_behind >= 0; }));
}

// Where each exchange is a transfer of its own, the branch that is done first travels while the
// other one is computed.
TEST(PostExchanges, OneBranchTravelsWhileTheOtherIsComputed) {
  for (const int workers : {1, 3}) {
    const Plan plan = Compiled(test::DecoderBody(kExperts), 2, Body(64), PlainTarget(workers),
                               Between(false, true));
    int apart = 0;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const Step& step = plan.steps[s];
      if (GroupSizeOf(plan.graph, plan.graph.nodes[s]) > 1) {
        EXPECT_EQ(step.wait, Wait::kGroup) << "a transfer of its own";
      }
      if (step.posted_behind < 0) continue;
      const auto behind = static_cast<size_t>(step.posted_behind);
      // No later than it can: behind its maker, or behind what was under way before it.
      const bool made = plan.graph.nodes[behind].out[0] == plan.graph.nodes[s].in[0];
      EXPECT_TRUE(made || GroupSizeOf(plan.graph, plan.graph.nodes[behind]) > 1);
      int products = 0;
      for (size_t between = behind + 1; between < s; ++between) {
        EXPECT_NE(plan.graph.nodes[between].layer, plan.graph.nodes[s].layer);
        products += plan.graph.nodes[between].op == Op::kMatmul ||
                    plan.graph.nodes[between].op == Op::kExpertMatmul;
      }
      apart += products > 0;
    }
    EXPECT_EQ(apart, kExperts.layers) << "workers " << workers << "\n" << Print(plan);
  }
}

TEST(PostExchanges, NeverWithoutTheSwitchOrAPeer) {
  EXPECT_EQ(Posted(Compiled(test::DecoderBody(kExperts), 2, Body(64), PlainTarget(1),
                            Between(false, false))),
            0);
  EXPECT_EQ(Posted(Compiled(test::DecoderBody(kExperts), 1, Body(64), PlainTarget(1),
                            Between(false, true))),
            0);
  CompileOptions eager = Between(false, true);
  eager.eager = true;
  EXPECT_EQ(Posted(Compiled(test::DecoderBody(kExperts), 2, Body(64), PlainTarget(1), eager)), 0);
}

// A meeting covers every exchange up to the next one: behind a post nothing is made that one of
// them reads.
TEST(PostExchanges, OneMeetingIsPostedBehindAllThatItCovers) {
  int apart = 0;
  for (const DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {2, 3}) {
      for (const int workers : {1, 3}) {
        for (const int32_t rows : {1, 64}) {
          for (const bool shared_memory : {true, false}) {
            const Plan with = Compiled(test::DecoderBody(shape), ranks, Body(rows),
                                       PlainTarget(workers), Between(shared_memory, true));
            const Plan without = Compiled(test::DecoderBody(shape), ranks, Body(rows),
                                          PlainTarget(workers), Between(shared_memory, false));
            EXPECT_TRUE(VerifyPlan(with).ok()) << VerifyPlan(with).message();
            EXPECT_EQ(with.waits(Wait::kGroup), without.waits(Wait::kGroup));
            EXPECT_EQ(with.waits(Wait::kRank), without.waits(Wait::kRank));
            for (size_t n = 0; n < with.graph.nodes.size(); ++n) {
              ASSERT_EQ(with.graph.nodes[n].out, without.graph.nodes[n].out)
                  << "the order is the other one's";
            }
            apart += Posted(with);
          }
        }
      }
    }
  }
  EXPECT_GT(apart, 0);
}

// What peers read while an exchange is under way is not written before they have told that they are
// done.
TEST(PostExchanges, AWriteBetweenPostAndWaitIsRefused) {
  Plan plan =
      Compiled(test::DecoderBody(kExperts), 2, Body(64), PlainTarget(1), Between(false, true));
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const int behind = plan.steps[s].posted_behind;
    if (behind < 0) continue;
    Plan overwritten = plan;
    overwritten.layouts[plan.graph.nodes[static_cast<size_t>(behind) + 1].out[0]].offset =
        plan.layouts[plan.graph.nodes[s].in[0]].offset;
    EXPECT_EQ(VerifyLaw(overwritten, Law::kMemory).message().substr(0, 2), "P3");
    Plan early = plan;
    early.steps[s].posted_behind = behind - 1;
    EXPECT_EQ(VerifyLaw(early, Law::kWaits).message().substr(0, 2), "P2");
    return;
  }
  FAIL() << "nothing is posted";
}

}  // namespace
}  // namespace weft::plan
