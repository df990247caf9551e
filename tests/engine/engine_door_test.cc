// The engine's public side: what it refuses, how requests leave early, how it stops.
#include <gtest/gtest.h>

#include <functional>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::HashExecutor;
using support::HashExecutorConfig;
using support::RandomPrompt;

TEST(EngineCreate, EveryImpossibleConfigurationNamesItsFlag) {
  struct Row {
    const char* flag;
    std::function<void(EngineConfig*)> change;
  };
  HashExecutor executor{HashExecutorConfig{}};
  ManualClock clock;
  NullLog log;
  const std::vector<Row> rows{
      {"--max-num-seqs", [](EngineConfig* c) { c->max_num_seqs = 0; }},
      {"--max-num-seqs", [](EngineConfig* c) { c->max_num_seqs = 17; }},
      {"--max-num-batched-tokens", [](EngineConfig* c) { c->max_num_batched_tokens = 7; }},
      {"--max-num-batched-tokens", [](EngineConfig* c) { c->max_num_batched_tokens = 65; }},
      {"--max-model-len", [](EngineConfig* c) { c->max_model_len = 257; }},
      {"--max-model-len", [](EngineConfig* c) { c->max_model_len = 1; }},
      {"--max-model-len", [](EngineConfig* c) { c->max_model_len = -5; }},
      {"--no-enable-chunked-prefill", [](EngineConfig* c) { c->enable_chunked_prefill = false; }},
      {"--long-prefill-token-threshold",
       [](EngineConfig* c) { c->long_prefill_token_threshold = -1; }},
      {"--scheduling-policy", [](EngineConfig* c) { c->scheduling_policy = "lottery"; }},
      {"--queue-max", [](EngineConfig* c) { c->queue_max = 0; }},
      {"end-of-sequence", [](EngineConfig* c) { c->eos_token_ids = {64}; }},
  };
  for (const Row& row : rows) {
    EngineConfig config = HarnessConfig{}.engine;
    row.change(&config);
    const auto made = Engine::Create(config, &executor, &clock, &log);
    ASSERT_FALSE(made.ok()) << row.flag;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalid);
    EXPECT_NE(made.status().message().find(row.flag), std::string::npos) << made.status().message();
  }
}

TEST(EngineCreate, TheModelLengthFollowsFromWhatTheCacheHolds) {
  HarnessConfig config;
  config.executor.limits.pages = 11;
  Harness h(config);
  EXPECT_EQ(h.engine->config().max_model_len, 41) << "40 cached tokens and a last one";
  const Status status = h.Submit("a", std::vector<int32_t>(41, 1), Greedy(1));
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_NE(status.message().find("--max-model-len 41"), std::string::npos) << status.message();
  h.stories.clear();
  ASSERT_TRUE(h.Submit("b", std::vector<int32_t>(40, 1), Greedy(9)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["b"].ids.size(), 1u) << "it fits to the last slot";
  h.ExpectClean();
}

TEST(EngineSubmit, AFullQueueRefusesAndAStepMakesRoom) {
  HarnessConfig config;
  config.engine.queue_max = 3;
  config.engine.max_num_seqs = 2;
  Harness h(config);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h.Submit(std::to_string(i), {1, i}, Greedy(3)).ok());
  const Status full = h.Submit("x", {1}, Greedy(1));
  EXPECT_EQ(full.code(), StatusCode::kExhausted);
  EXPECT_NE(full.message().find("--queue-max 3"), std::string::npos);
  h.stories.erase("x");
  h.engine->Step();  // two run, one waits
  EXPECT_TRUE(h.Submit("3", {1, 3}, Greedy(3)).ok());
  EXPECT_TRUE(h.Submit("4", {1, 4}, Greedy(3)).ok());
  EXPECT_EQ(h.Submit("y", {1}, Greedy(1)).code(), StatusCode::kExhausted);
  h.stories.erase("y");
  h.Drain();
  h.ExpectClean();
}

TEST(EngineSubmit, ASecondRequestOfOneIdIsAnErrorAndTheFirstGoesOn) {
  Harness h({});
  ASSERT_TRUE(h.Submit("a", {1, 2}, Greedy(4)).ok());
  auto twin = h.Make("b", {1, 2}, Greedy(4));
  twin->id = "a";
  ASSERT_TRUE(h.engine->Submit(std::move(twin)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["a"].finish(), FinishReason::kLength);
  EXPECT_EQ(h.stories["b"].finish(), FinishReason::kError);
  EXPECT_EQ(h.stories["b"].events.back().error.code(), StatusCode::kInvalid);
  h.ExpectClean();
}

TEST(EngineAbort, AtEveryMomentItFreesAllAndDisturbsNobody) {
  Rng rng(1);
  const auto victim = RandomPrompt(&rng, 30);
  const auto neighbour = RandomPrompt(&rng, 10);
  for (int after = 0; after < 14; ++after) {
    HarnessConfig config;
    config.engine.max_num_batched_tokens = 8;  // waits, then four chunks, then decodes
    Harness h(config);
    ASSERT_TRUE(h.Submit("neighbour", neighbour, Greedy(12)).ok());
    ASSERT_TRUE(h.Submit("victim", victim, Greedy(20)).ok());
    for (int i = 0; i < after; ++i) h.engine->Step();
    h.engine->Abort("victim");
    h.engine->Abort("nobody");
    h.engine->Step();
    EXPECT_EQ(h.stories["victim"].ends, 1);
    EXPECT_EQ(h.stories["victim"].finish(), FinishReason::kAbort) << "after " << after;
    h.Drain();
    EXPECT_EQ(h.stories["neighbour"].ids, Expect(h.executor->model(), neighbour, Greedy(12)));
    h.ExpectClean();
  }
}

TEST(EngineAbort, ASinkMayAbortItsOwnRequest) {
  Harness h({});
  auto request = h.Make("a", {1, 2}, Greedy(50));
  auto sink = request->sink;
  int heard = 0;
  request->sink = [&, sink](TokenEvent event) {
    sink(std::move(event));
    if (++heard == 3) h.engine->Abort("a");
  };
  ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["a"].ids.size(), 3u);
  h.ExpectClean();
}

TEST(EngineAbort, NoneIsLostWhenTheMailboxIsFull) {
  HarnessConfig config;
  config.engine.queue_max = 1;
  Harness h(config);
  ASSERT_TRUE(h.Submit("a", {1, 2}, Greedy(50)).ok());
  h.engine->Step();
  for (int i = 0; i < 3000; ++i) h.engine->Abort("nobody");
  h.engine->Abort("a");
  h.engine->Step();
  EXPECT_EQ(h.stories["a"].finish(), FinishReason::kAbort);
  h.ExpectClean();
}

TEST(EngineDeadline, EndsARequestThatWaitsAndOneThatRuns) {
  HarnessConfig config;
  config.engine.max_num_seqs = 1;
  Harness h(config);
  for (const char* id : {"runs", "waits"}) {
    auto request = h.Make(id, {1, 2, 3}, Greedy(50));
    request->deadline_ns = h.clock.NowNs() + 10'000'000;
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  }
  ASSERT_TRUE(h.Submit("free", {1, 2, 3}, Greedy(50)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["runs"].events.back().error.code(), StatusCode::kDeadline);
  EXPECT_EQ(h.stories["waits"].events.back().error.code(), StatusCode::kDeadline);
  EXPECT_GT(h.stories["runs"].ids.size(), 5u);
  EXPECT_TRUE(h.stories["waits"].ids.empty());
  EXPECT_EQ(h.stories["free"].ids.size(), 50u);
  h.ExpectClean();
}

TEST(EngineStop, DrainingFinishesWhatWasAcceptedAndRefusesTheRest) {
  Harness h({});
  ASSERT_TRUE(h.Submit("a", {1, 2}, Greedy(9)).ok());
  h.engine->Step();
  h.engine->Stop(/*drain=*/true);
  EXPECT_EQ(h.Submit("b", {1}, Greedy(1)).code(), StatusCode::kUnavailable);
  h.stories.erase("b");
  h.engine->Run();
  EXPECT_EQ(h.stories["a"].ids.size(), 9u);
  h.ExpectClean();
}

TEST(EngineStop, ASecondStopTurnsDrainingIntoAborting) {
  Harness h({});
  ASSERT_TRUE(h.Submit("a", {1, 2}, Greedy(50)).ok());
  h.engine->Step();
  h.engine->Stop(/*drain=*/true);
  h.engine->Step();
  h.engine->Stop(/*drain=*/false);
  h.engine->Stop(/*drain=*/true);
  h.engine->Run();
  EXPECT_EQ(h.stories["a"].finish(), FinishReason::kAbort);
  EXPECT_EQ(h.stories["a"].ids.size(), 2u);
  h.ExpectClean();
}

TEST(EnginePrefix, SaltsSeparateTenantsAndCachedTokensAreReported) {
  Harness h({});
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 20);
  const auto serve = [&](const char* id, const char* salt) {
    auto request = h.Make(id, prompt, Greedy(3));
    request->cache_salt = salt;
    EXPECT_TRUE(h.engine->Submit(std::move(request)).ok());
    h.Drain();
    return h.stories[id].events[0].cached_tokens;
  };
  EXPECT_EQ(serve("a", "red"), 0);
  EXPECT_EQ(serve("b", "blue"), 0);
  EXPECT_EQ(serve("c", "red"), 16) << "the last of 20 tokens is always computed";
  EXPECT_EQ(serve("d", ""), 0);
  h.ExpectClean();
}

TEST(EnginePrefix, ManyChoicesOfOnePromptComputeItOnce) {
  Harness h({});
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 40);
  for (uint32_t i = 0; i < 8; ++i) {
    SamplingParams p{.temperature = 1, .seed = 5, .max_tokens = 6, .ignore_eos = true};
    auto request = h.Make(std::to_string(i), prompt, p);
    request->choice = i;
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  }
  h.Drain();
  EXPECT_EQ(h.executor->tokens(), 40u + 7 * 4 + 8 * 5) << "36 of 40 tokens are shared by 7";
  EXPECT_NE(h.stories["0"].ids, h.stories["1"].ids);
  h.ExpectClean();
}

}  // namespace
}  // namespace weft::engine
