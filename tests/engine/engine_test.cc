#include "engine/engine.h"

#include <gtest/gtest.h>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

TEST(Engine, AnswersOneRequestAsTheModelDefines) {
  Harness h({});
  Rng rng(1);
  const std::vector<int32_t> prompt = RandomPrompt(&rng, 10);
  ASSERT_TRUE(h.Submit("a", prompt, Greedy(7)).ok());
  h.Drain();
  const support::Story& story = h.stories["a"];
  EXPECT_EQ(story.ids, Expect(h.executor->model(), prompt, Greedy(7)));
  EXPECT_EQ(story.finish(), FinishReason::kLength);
  EXPECT_EQ(h.executor->steps(), 7u) << "one prefill, then one token a step";
  EXPECT_EQ(h.executor->sample_steps(), 0u) << "nobody asked for more than the argmax";
  h.ExpectClean();
}

// What varies never changes an answer; each cell also shows that what it varies has happened.
struct Cell {
  std::string name;
  HarnessConfig config;
  bool reverse = false;
  bool alone = false;
  bool wants_chunks = false, wants_hits = false, wants_preemptions = false;
};

std::vector<Cell> Cells() {
  std::vector<Cell> cells;
  const HarnessConfig roomy = [] {
    HarnessConfig c;
    c.executor.limits.pages = 513;
    return c;
  }();
  const auto add = [&](std::string name, auto change) {
    Cell cell{.name = std::move(name), .config = roomy};
    change(&cell);
    cells.push_back(std::move(cell));
  };
  add("alone", [](Cell* c) {
    c->alone = true;
    c->config.engine.enable_prefix_caching = false;
  });
  add("together", [](Cell* c) { c->wants_hits = true; });
  add("reverse order", [](Cell* c) { c->reverse = c->wants_hits = true; });
  add("no prefix cache", [](Cell* c) { c->config.engine.enable_prefix_caching = false; });
  for (int budget : {8, 9, 16, 31}) {
    add("budget " + std::to_string(budget), [&](Cell* c) {
      c->config.engine.max_num_batched_tokens = budget;
      c->wants_chunks = c->wants_hits = true;
    });
  }
  add("long prompts capped", [](Cell* c) {
    c->config.engine.long_prefill_token_threshold = 5;
    c->wants_chunks = true;
  });
  add("whole prompts only", [](Cell* c) {
    c->config.engine.enable_chunked_prefill = false;
    c->config.engine.max_model_len = 64;
  });
  for (int pages : {18, 21, 30}) {
    for (bool cache : {false, true}) {
      add(std::to_string(pages) + " pages" + (cache ? ", cache" : ""), [&](Cell* c) {
        c->config.executor.limits.pages = pages;
        c->config.engine.enable_prefix_caching = cache;
        c->config.engine.max_model_len = 66;
        c->wants_preemptions = true;
      });
    }
  }
  add("small pool, small chunks, priority", [](Cell* c) {
    c->config.executor.limits.pages = 20;
    c->config.engine.max_num_batched_tokens = 8;
    c->config.engine.scheduling_policy = "priority";
    c->wants_preemptions = c->wants_chunks = true;
  });
  return cells;
}

std::vector<std::pair<std::vector<int32_t>, SamplingParams>> Workload() {
  Rng rng(7);
  std::vector<std::pair<std::vector<int32_t>, SamplingParams>> work;
  const std::vector<int32_t> common = RandomPrompt(&rng, 21);
  for (int i = 0; i < 24; ++i) {
    std::vector<int32_t> prompt = RandomPrompt(&rng, 1 + static_cast<int32_t>(rng.Below(30)));
    if (i % 3 == 0) prompt.insert(prompt.begin(), common.begin(), common.end());
    SamplingParams p = Greedy(1 + static_cast<int32_t>(rng.Below(14)));
    if (i % 4 == 1) {
      p.temperature = 0.8f;
      p.seed = 100 + i;
      p.top_p = 0.9f;
    }
    if (i % 4 == 2) {
      p.repetition_penalty = 1.3f;
      p.frequency_penalty = 0.5f;
      p.presence_penalty = 0.25f;
      p.logit_bias = {{3, 4.0f}, {9, -2.0f}};
    }
    if (i % 5 == 0) p.stop_token_ids = {1, 2, 3, 4, 5};
    if (i % 10 == 0) p.min_tokens = p.max_tokens / 2;
    work.emplace_back(std::move(prompt), p);
  }
  return work;
}

TEST(Engine, AnAnswerDependsOnNothingButItsRequest) {
  const auto work = Workload();
  for (const Cell& cell : Cells()) {
    SCOPED_TRACE(cell.name);
    Harness h(cell.config);
    for (size_t k = 0; k < work.size(); ++k) {
      const size_t i = cell.reverse ? work.size() - 1 - k : k;
      auto request = h.Make(std::to_string(i), work[i].first, work[i].second);
      if (cell.config.engine.scheduling_policy == "priority") {
        request->priority = static_cast<int32_t>(i % 3);
      }
      ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
      if (cell.alone) h.Drain();
    }
    h.Drain();
    for (size_t i = 0; i < work.size(); ++i) {
      const auto& [prompt, p] = work[i];
      EXPECT_EQ(h.stories[std::to_string(i)].ids,
                Expect(h.executor->model(), prompt, p, p.seed.value_or(0)))
          << "request " << i;
    }
    h.ExpectClean();
    const MetricsSnapshot m = h.engine->Metrics();
    if (cell.alone) {
      EXPECT_EQ(h.executor->shared_steps(), 0u);
    } else {
      EXPECT_GT(h.executor->shared_steps(), 0u);
    }
    uint64_t prompts = 0;
    for (const auto& [prompt, p] : work) prompts += prompt.size();
    if (cell.wants_chunks) {
      EXPECT_GT(h.executor->headless_segments(), 0u);
    }
    if (cell.wants_hits) {
      EXPECT_GT(m.prefix_cache_hits, 0u);
    }
    if (cell.wants_preemptions) {
      EXPECT_GT(m.preemptions, 0u);
    }
    if (!cell.wants_preemptions && !cell.config.engine.enable_prefix_caching) {
      EXPECT_EQ(h.executor->tokens(), prompts + m.generation_tokens - work.size())
          << "each token is computed once, the last of a request never";
    }
    EXPECT_LE(h.executor->tokens_in_step_max(),
              static_cast<size_t>(cell.config.engine.max_num_batched_tokens));
  }
}

}  // namespace
}  // namespace weft::engine
