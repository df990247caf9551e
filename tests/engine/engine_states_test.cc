// Models with recurrent states: slots of running requests, checkpoints of prefixes, and what may
// hit them.
// Covers src/engine/kv/state_cache.cc src/engine/scheduler/scheduler.cc
#include <gtest/gtest.h>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

// Blocks of 4 tokens; `checkpoints` slots beside those of 16 requests.
HarnessConfig WithCheckpoints(int32_t checkpoints) {
  HarnessConfig config;
  config.executor.limits.states = config.executor.limits.rows_max + 1 + checkpoints;
  return config;
}

int32_t CachedTokens(const Harness& h, const std::string& id) {
  for (const TokenEvent& event : h.stories.at(id).events) {
    if (event.cached_tokens >= 0) return event.cached_tokens;
  }
  return -1;
}

void ExpectAnswer(const Harness& h, const std::string& id, const std::vector<int32_t>& prompt,
                  int32_t tokens = 6) {
  EXPECT_EQ(h.stories.at(id).ids, Expect(h.executor->model(), prompt, Greedy(tokens))) << id;
}

TEST(EngineStates, AHitIsTheLongestPrefixWithAState) {
  Harness h(WithCheckpoints(8));
  Rng rng(1);
  const std::vector<int32_t> first = RandomPrompt(&rng, 22);
  ASSERT_TRUE(h.Submit("first", first, Greedy(6)).ok());
  h.Drain();
  std::vector<int32_t> longer = first;
  for (int32_t id : h.stories["first"].ids) longer.push_back(id);
  for (int32_t id : RandomPrompt(&rng, 9)) longer.push_back(id);
  ASSERT_TRUE(h.Submit("longer", longer, Greedy(6)).ok());
  ASSERT_TRUE(h.Submit("same", first, Greedy(6)).ok());
  h.Drain();
  EXPECT_EQ(CachedTokens(h, "longer"), 20) << "the last block boundary of the first prompt";
  EXPECT_EQ(CachedTokens(h, "same"), 20);
  ExpectAnswer(h, "longer", longer);
  ExpectAnswer(h, "same", first);
  EXPECT_EQ(h.engine->Metrics().state_checkpoint_hits, 2u);
  h.ExpectClean();
}

// A prompt of n * block tokens is cut a block earlier: its last token is always computed.
TEST(EngineStates, TheLastTokenOfAPromptIsNeverBehindACheckpoint) {
  Harness h(WithCheckpoints(8));
  Rng rng(2);
  for (const int32_t length : {1, 3, 4, 5, 8, 12}) {
    const std::vector<int32_t> prompt = RandomPrompt(&rng, length);
    for (const char* round : {"a", "b"}) {
      const std::string id = std::to_string(length) + round;
      ASSERT_TRUE(h.Submit(id, prompt, Greedy(6)).ok());
      h.Drain();
      ExpectAnswer(h, id, prompt);
      EXPECT_EQ(CachedTokens(h, id), *round == 'a' ? 0 : (length - 1) / 4 * 4) << id;
    }
  }
  h.ExpectClean();
}

TEST(EngineStates, WherePromptsPartAStateIsKeptForTheThird) {
  Harness h(WithCheckpoints(8));
  Rng rng(3);
  const std::vector<int32_t> shared = RandomPrompt(&rng, 12);
  std::vector<std::vector<int32_t>> prompts(3, shared);
  for (int i = 0; i < 3; ++i) {
    for (int32_t id : RandomPrompt(&rng, 15)) prompts[i].push_back(id);
    prompts[i][12] = i;  // they part here
    ASSERT_TRUE(h.Submit(std::to_string(i), prompts[i], Greedy(6)).ok());
    h.Drain();
    ExpectAnswer(h, std::to_string(i), prompts[i]);
  }
  EXPECT_EQ(CachedTokens(h, "1"), 0) << "its blocks are known, but no state behind them";
  EXPECT_EQ(CachedTokens(h, "2"), 12);
  h.ExpectClean();
}

// T50 of spec/engine 5.C: a prompt that leaves a known one behind 32 tokens is cut there; the state
// at the junction serves the third. The first keeps its own behind 64 of 65.
TEST(EngineStates, T50APromptIsCutWhereItLeavesAKnownOne) {
  HarnessConfig config = WithCheckpoints(8);
  config.executor.limits.page_tokens = 16;
  Harness h(config);
  std::vector<size_t> steps;  // rows of each
  h.executor->before_step = [&](uint64_t, const plan::StepInputs& in) {
    steps.push_back(in.ids.size());
    return Status::Ok();
  };
  Rng rng(5);
  const std::vector<int32_t> shared = RandomPrompt(&rng, 32);
  for (int i = 0; i < 3; ++i) {
    std::vector<int32_t> prompt = shared;
    for (int32_t id : RandomPrompt(&rng, 33)) prompt.push_back(id);
    prompt[32] = i;
    steps.clear();
    ASSERT_TRUE(h.Submit(std::to_string(i), prompt, Greedy(6)).ok());
    h.Drain();
    ExpectAnswer(h, std::to_string(i), prompt);
    EXPECT_EQ(CachedTokens(h, std::to_string(i)), i == 2 ? 32 : 0);
    EXPECT_EQ(steps[0], i == 0 ? 64u : 32u) << i;
  }
  h.ExpectClean();
}

// T53 of spec/engine 5.C, a hundredth of its sizes: whatever the budgets of its chunks, states are
// kept behind whole blocks alone, and a prompt that goes on hits the last of them.
TEST(EngineStates, T53OddBudgetsKeepNoStateInsideABlock) {
  for (const int32_t budget : {3, 7, 10, 13, 16, 20, 64}) {
    HarnessConfig config = WithCheckpoints(8);
    config.executor.limits.page_tokens = 16;
    config.engine.max_num_batched_tokens = budget;
    config.engine.max_num_seqs = 2;
    Harness h(config);
    h.executor->before_step = [&](uint64_t, const plan::StepInputs& in) {
      for (const plan::StateCopy& copy : in.state_copies) {
        // Kept behind what is computed by then: where this step begins.
        if (copy.to > h.executor->limits().seqs_max) {
          EXPECT_EQ(in.segments[0].position_begin % 16, 0) << budget;
        }
      }
      return Status::Ok();
    };
    Rng rng(6);
    std::vector<int32_t> prompt = RandomPrompt(&rng, 36);
    ASSERT_TRUE(h.Submit("first", prompt, Greedy(6)).ok());
    h.Drain();
    ExpectAnswer(h, "first", prompt);
    for (int32_t id : RandomPrompt(&rng, 5)) prompt.push_back(id);
    ASSERT_TRUE(h.Submit("longer", prompt, Greedy(6)).ok());
    h.Drain();
    ExpectAnswer(h, "longer", prompt);
    EXPECT_EQ(CachedTokens(h, "longer"), 32) << budget;
    EXPECT_GT(h.engine->Metrics().state_checkpoints, 0u);
    h.ExpectClean();
  }
}

TEST(EngineStates, AnIntervalKeepsStatesInsideAPrompt) {
  HarnessConfig config = WithCheckpoints(8);
  config.engine.state_checkpoint_interval = 8;
  Harness h(config);
  Rng rng(4);
  const std::vector<int32_t> prompt = RandomPrompt(&rng, 30);
  std::vector<int32_t> other(prompt.begin(), prompt.begin() + 19);
  other.push_back(prompt[19] ^ 1);
  ASSERT_TRUE(h.Submit("long", prompt, Greedy(6)).ok());
  h.Drain();
  ASSERT_TRUE(h.Submit("other", other, Greedy(6)).ok());
  h.Drain();
  EXPECT_EQ(h.engine->Metrics().state_checkpoints, 4u)
      << "behind 8, 16, 24 and 28 tokens; the other one ends behind 16";
  EXPECT_EQ(CachedTokens(h, "other"), 16);
  ExpectAnswer(h, "other", other);
  h.ExpectClean();
}

TEST(EngineStates, EqualPromptsAtOnceShareOneComputation) {
  Harness h(WithCheckpoints(8));
  Rng rng(5);
  const std::vector<int32_t> prompt = RandomPrompt(&rng, 41);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(h.Submit(std::to_string(i), prompt, Greedy(6)).ok());
  h.Drain();
  for (int i = 0; i < 8; ++i) {
    ExpectAnswer(h, std::to_string(i), prompt);
    EXPECT_EQ(CachedTokens(h, std::to_string(i)), i == 0 ? 0 : 40);
  }
  h.ExpectClean();
}

TEST(EngineStates, WithoutSlotsForThemNothingIsHit) {
  Harness h(WithCheckpoints(0));
  Rng rng(6);
  const std::vector<int32_t> prompt = RandomPrompt(&rng, 41);
  for (const char* id : {"a", "b"}) {
    ASSERT_TRUE(h.Submit(id, prompt, Greedy(6)).ok());
    h.Drain();
    ExpectAnswer(h, id, prompt);
    EXPECT_EQ(CachedTokens(h, id), 0);
  }
  h.ExpectClean();
}

// Two slots, few pages, short alphabets: everything is evicted, preempted and aborted all the time.
TEST(EngineStates, UnderPressureNoRequestSeesAForeignState) {
  HarnessConfig config = WithCheckpoints(2);
  config.executor.limits.pages = 20;
  config.engine.max_num_batched_tokens = 16;
  config.engine.state_checkpoint_interval = 4;
  Harness h(config);
  Rng rng(7);
  std::map<std::string, std::vector<int32_t>> prompts;
  for (int i = 0; i < 600; ++i) {
    const std::string id = std::to_string(i);
    prompts[id] = RandomPrompt(&rng, 1 + static_cast<int32_t>(rng.Below(30)), 2);
    ASSERT_TRUE(h.Submit(id, prompts[id], Greedy(8)).ok());
    for (uint64_t steps = rng.Below(4); steps-- > 0;) h.engine->Step();
    if (rng.Below(8) == 0) h.engine->Abort(std::to_string(rng.Below(static_cast<uint64_t>(i) + 1)));
  }
  h.Drain();
  int answered = 0;
  for (const auto& [id, prompt] : prompts) {
    if (h.stories[id].finish() != FinishReason::kLength) continue;
    ExpectAnswer(h, id, prompt, 8);
    ++answered;
  }
  const MetricsSnapshot m = h.engine->Metrics();
  EXPECT_GT(answered, 400);
  EXPECT_GT(m.preemptions, 0u);
  EXPECT_GT(m.state_checkpoint_hits, 20u);
  EXPECT_GT(m.state_checkpoints, m.state_checkpoint_hits);
  h.ExpectClean();
}

}  // namespace
}  // namespace weft::engine
