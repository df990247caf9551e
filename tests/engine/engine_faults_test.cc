// Negative controls: each rule broken on purpose must be seen. A suite that stays green here could
// not have failed.
#include <gtest/gtest.h>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

struct Outcome {
  int wrong = 0;
  uint64_t hits = 0;
  uint64_t violations = 0;
};

// `count` prompts from an alphabet of 4 ids, so that blocks are often, prompts seldom equal.
Outcome Serve(HarnessConfig config, int count) {
  Harness h(config);
  Rng rng(11);
  std::vector<std::vector<int32_t>> prompts;
  Outcome outcome;
  for (int i = 0; i < count; ++i) {
    prompts.push_back(RandomPrompt(&rng, 9 + static_cast<int32_t>(rng.Below(12)), 4));
    EXPECT_TRUE(h.Submit(std::to_string(i), prompts.back(), Greedy(6)).ok());
    if (i % 8 == 7) h.Drain();
  }
  h.Drain();
  for (int i = 0; i < count; ++i) {
    outcome.wrong +=
        h.stories[std::to_string(i)].ids != Expect(h.executor->model(), prompts[i], Greedy(6));
  }
  outcome.hits = h.engine->Metrics().prefix_cache_hits;
  outcome.violations = h.executor->violations();
  EXPECT_EQ(h.engine->cache().pool().held(), 0);
  return outcome;
}

TEST(EngineFaults, NothingIsWrongWithoutThem) {
  const Outcome outcome = Serve({}, 2000);
  EXPECT_EQ(outcome.wrong, 0);
  EXPECT_EQ(outcome.violations, 0u);
  EXPECT_GT(outcome.hits, 0u);
}

TEST(EngineFaults, OneStalePageIsSeen) {
  HarnessConfig config;
  config.faults.stale_page = true;
  const Outcome outcome = Serve(config, 50);
  EXPECT_GT(outcome.wrong, 0);
  EXPECT_GT(outcome.violations, 0u);
}

TEST(EngineFaults, OneStaleStateIsSeen) {
  HarnessConfig config;
  config.executor.limits.states = config.executor.limits.rows_max + 1 + 16;
  config.engine.state_checkpoint_interval = 4;
  const Outcome sound = Serve(config, 2000);
  EXPECT_EQ(sound.wrong, 0);
  EXPECT_GT(sound.hits, 0u);
  config.faults.stale_state = true;
  const Outcome outcome = Serve(config, 2000);
  EXPECT_GT(outcome.wrong, 0);
  EXPECT_GT(outcome.violations, 0u);
}

// CVE-2025-25183 in small: with 4 bits almost every lookup collides.
TEST(EngineFaults, CollidingHashesGiveNoWrongToken) {
  HarnessConfig config;
  config.faults.prefix_hash_bits = 4;
  const Outcome colliding = Serve(config, 10'000);
  EXPECT_EQ(colliding.wrong, 0);
  EXPECT_EQ(colliding.violations, 0u);
  EXPECT_GT(colliding.hits, 1000u) << "collisions cost time, not hits";
}

TEST(EngineFaults, TrustInACollidingHashIsSeen) {
  HarnessConfig config;
  config.faults.prefix_hash_bits = 4;
  config.faults.prefix_trusts_hash = true;
  EXPECT_GT(Serve(config, 200).wrong, 0);
}

}  // namespace
}  // namespace weft::engine
