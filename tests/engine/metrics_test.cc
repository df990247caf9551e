#include "engine/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/metrics_book.h"
#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

uint64_t Total(const Histogram& h) {
  uint64_t total = 0;
  for (uint64_t n : h.counts) total += n;
  return total;
}

TEST(Histogram, ABoundBelongsToItsOwnBucket) {
  Histogram h{.bounds = {1, 2}, .counts = {0, 0, 0}};
  for (double v : {0.5, 1.0, 1.5, 2.0, 2.5}) h.Observe(v);
  EXPECT_EQ(h.counts, (std::vector<uint64_t>{2, 2, 1}));
  EXPECT_DOUBLE_EQ(h.sum, 7.5);
}

TEST(Metrics, BoundsAscendAndEveryHistogramHasARestBucket) {
  const MetricsSnapshot m = MakeMetrics(4096);
  for (const Histogram* h :
       {&m.time_to_first_token_s, &m.inter_token_latency_s, &m.e2e_request_latency_s,
        &m.request_queue_time_s, &m.request_prompt_tokens, &m.request_generation_tokens,
        &m.iteration_tokens}) {
    EXPECT_TRUE(std::is_sorted(h->bounds.begin(), h->bounds.end()));
    EXPECT_EQ(h->counts.size(), h->bounds.size() + 1);
  }
  EXPECT_GE(m.request_prompt_tokens.bounds.back(), 4096);
}

TEST(Metrics, CountsOfAServedLoadAddUp) {
  Harness h({});
  Rng rng(2);
  uint64_t prompt_tokens = 0, generated = 0;
  for (int i = 0; i < 20; ++i) {
    const auto prompt = RandomPrompt(&rng, 1 + i);
    prompt_tokens += prompt.size();
    generated += 5;
    ASSERT_TRUE(h.Submit(std::to_string(i), prompt, Greedy(5)).ok());
  }
  h.engine->Step();
  EXPECT_EQ(h.engine->Metrics().requests_running, 8);
  EXPECT_EQ(h.engine->Metrics().requests_waiting, 12);
  EXPECT_GT(h.engine->Metrics().kv_cache_usage, 0);
  h.Drain();
  const MetricsSnapshot m = h.engine->Metrics();
  EXPECT_EQ(m.prompt_tokens, prompt_tokens);
  EXPECT_EQ(m.generation_tokens, generated);
  EXPECT_EQ(m.finished[static_cast<size_t>(FinishReason::kLength)], 20u);
  EXPECT_EQ(m.steps, h.executor->steps());
  EXPECT_EQ(m.tokens_scheduled, h.executor->tokens());
  EXPECT_EQ(Total(m.time_to_first_token_s), 20u);
  EXPECT_EQ(Total(m.inter_token_latency_s), generated - 20);
  EXPECT_EQ(Total(m.e2e_request_latency_s), 20u);
  EXPECT_EQ(Total(m.request_queue_time_s), 20u);
  EXPECT_EQ(Total(m.iteration_tokens), m.steps);
  EXPECT_DOUBLE_EQ(m.iteration_tokens.sum, static_cast<double>(m.tokens_scheduled));
  EXPECT_DOUBLE_EQ(m.request_prompt_tokens.sum, static_cast<double>(prompt_tokens));
  EXPECT_EQ(m.prefix_cache_queries, prompt_tokens);
  EXPECT_NEAR(m.step_s,
              static_cast<double>(m.steps) * 1e-3 + static_cast<double>(m.tokens_scheduled) * 1e-5,
              1e-9)
      << "the virtual clock moves in the executor only";
  EXPECT_EQ(m.host_s, 0);
  EXPECT_EQ(m.requests_running + m.requests_waiting, 0);
}

TEST(Metrics, APreemptedRequestIsCountedOnce) {
  HarnessConfig config;
  config.executor.limits.pages = 12;
  config.engine.max_model_len = 40;
  Harness h(config);
  Rng rng(3);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(h.Submit(std::to_string(i), RandomPrompt(&rng, 9), Greedy(20)).ok());
  }
  h.Drain();
  const MetricsSnapshot m = h.engine->Metrics();
  EXPECT_GT(m.preemptions, 0u);
  EXPECT_EQ(m.prefix_cache_queries, 36u);
  EXPECT_EQ(m.prompt_tokens, 36u);
  EXPECT_EQ(Total(m.request_queue_time_s), 4u);
}

}  // namespace
}  // namespace weft::engine
