// Random lives of an engine on a pool far too small: arrivals, aborts, deadlines, failing steps,
// NaN rows. A failing seed replays exactly: --gtest_filter and the seed in the trace.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

struct Sent {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

HarnessConfig RandomConfig(Rng* rng) {
  HarnessConfig c;
  c.engine.max_num_seqs = 1 + static_cast<int32_t>(rng->Below(8));
  c.engine.max_num_batched_tokens = c.engine.max_num_seqs + static_cast<int32_t>(rng->Below(40));
  c.engine.enable_prefix_caching = rng->Below(4) != 0;
  c.engine.long_prefill_token_threshold = rng->Below(3) == 0 ? 5 : 0;
  c.engine.scheduling_policy = rng->Below(2) == 0 ? "fcfs" : "priority";
  c.engine.queue_max = 1 + static_cast<int32_t>(rng->Below(40));
  c.engine.eos_token_ids = {0, 7};
  c.executor.limits.rows_max = c.engine.max_num_seqs + static_cast<int32_t>(rng->Below(4));
  c.executor.limits.page_tokens = 1 << rng->Below(4);
  const int32_t tokens = 48 + static_cast<int32_t>(rng->Below(80));
  c.executor.limits.pages =
      1 + (tokens + c.executor.limits.page_tokens - 1) / c.executor.limits.page_tokens;
  c.executor.limits.positions_max = 49;
  if (rng->Below(3) != 0) {
    SpeculationConfig& s = c.engine.speculation;
    s.method = rng->Below(3) == 0 ? SpeculationMethod::kNgram : SpeculationMethod::kMtp;
    s.tokens = 1 + static_cast<int32_t>(rng->Below(5));
    s.automatic = rng->Below(4) == 0;
    s.lookup_min = 1;
    c.executor.limits.draft_head = s.method == SpeculationMethod::kMtp;
    c.executor.limits.draft_tokens = s.tokens;
    c.executor.limits.rows_max =
        c.engine.max_num_seqs +
        static_cast<int32_t>(rng->Below(c.engine.max_num_seqs * s.tokens + 1));
    c.executor.limits.seqs_max = c.engine.max_num_seqs;
  }
  if (rng->Below(3) == 0)
    c.executor.limits.states = std::max(c.executor.limits.seqs_max, c.executor.limits.rows_max) +
                               1 + static_cast<int32_t>(rng->Below(9));
  return c;
}

SamplingParams RandomSampling(Rng* rng) {
  SamplingParams p{.temperature = rng->Below(2) == 0 ? 0.0f : 0.9f,
                   .seed = rng->Next(),
                   .max_tokens = 1 + static_cast<int32_t>(rng->Below(20)),
                   .ignore_eos = rng->Below(2) == 0};
  p.min_tokens = rng->Below(3) == 0 ? static_cast<int32_t>(rng->Below(p.max_tokens + 1)) : 0;
  if (rng->Below(3) == 0) p.stop_token_ids = {5, 6};
  if (rng->Below(4) == 0) p.repetition_penalty = 1.5f;
  if (rng->Below(4) == 0) p.frequency_penalty = 1.0f;
  if (rng->Below(4) == 0) p.logprobs = static_cast<int32_t>(rng->Below(6));
  if (rng->Below(6) == 0) p.prompt_logprobs = static_cast<int32_t>(rng->Below(3));
  return p;
}

struct Totals {
  uint64_t accepted = 0, rejected = 0, checkpoints = 0;
  uint64_t steps = 0, preemptions = 0, hits = 0, aborts = 0, errors = 0, refused = 0, complete = 0;
};

void Live(uint64_t seed, int steps, Totals* totals) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  const HarnessConfig config = RandomConfig(&rng);
  Harness h(config);
  std::map<std::string, Sent> sent;
  std::vector<std::vector<int32_t>> prefixes;
  for (int i = 0; i < 3; ++i) prefixes.push_back(RandomPrompt(&rng, 8 + 4 * i));
  const bool faulty = rng.Below(2) == 0;
  h.executor->drafts_are_whole = !config.engine.speculation.automatic;
  if (faulty) {
    h.executor->before_step = [&](uint64_t, const plan::StepInputs&) {
      return rng.Below(50) == 0 ? Status::Internal("injected") : Status::Ok();
    };
    h.executor->before_draft = [&](uint64_t) {
      return rng.Below(100) == 0 ? Status::Internal("injected") : Status::Ok();
    };
    h.executor->after_draft = [&](size_t, SampleOut* out) {
      if (rng.Below(20) == 0) out->has_nan = 1;
    };
    h.executor->after_row = [&](const plan::StepInputs&, size_t, SampleOut* out) {
      if (rng.Below(200) == 0) out->has_nan = 1;
    };
  }
  int next = 0;
  for (int step = 0; step < steps; ++step) {
    for (uint64_t n = rng.Below(4) == 0 ? rng.Below(6) : 0; n > 0; --n) {
      const std::string id = std::to_string(next++);
      Sent s{.prompt = RandomPrompt(&rng, 1 + static_cast<int32_t>(rng.Below(20))),
             .sampling = RandomSampling(&rng)};
      if (rng.Below(2) == 0) {
        const auto& prefix = prefixes[rng.Below(prefixes.size())];
        s.prompt.insert(s.prompt.begin(), prefix.begin(), prefix.end());
      }
      auto request = h.Make(id, s.prompt, s.sampling);
      request->priority = static_cast<int32_t>(rng.Below(3));
      if (rng.Below(3) == 0) request->cache_salt = "tenant " + std::to_string(rng.Below(2));
      if (rng.Below(8) == 0) {
        request->deadline_ns = h.clock.NowNs() + static_cast<int64_t>(rng.Below(40'000'000));
      }
      if (h.engine->Submit(std::move(request)).ok()) {
        sent.emplace(id, std::move(s));
      } else {
        ++totals->refused;
        h.stories.erase(id);
      }
    }
    if (next > 0 && rng.Below(10) == 0) h.engine->Abort(std::to_string(rng.Below(next)));
    h.engine->Step();
    const BlockPool& pool = h.engine->cache().pool();
    ASSERT_EQ(pool.free() + pool.held(), pool.total());
  }
  h.Drain();
  h.ExpectClean();

  uint64_t tokens = 0;
  for (const auto& [id, s] : sent) {
    const support::Story& story = h.stories[id];
    const std::vector<int32_t> expected =
        Expect(h.executor->model(), s.prompt, s.sampling, *s.sampling.seed,
               config.engine.eos_token_ids, h.engine->config().max_model_len);
    tokens += story.ids.size();
    const bool complete =
        story.finish() == FinishReason::kStop || story.finish() == FinishReason::kLength;
    if (complete) {
      ASSERT_EQ(story.ids, expected) << id;
      ++totals->complete;
      if (s.sampling.prompt_logprobs) {
        ASSERT_EQ(story.events[0].prompt_logprobs.size(), s.prompt.size() - 1) << id;
      }
    } else {
      ASSERT_LE(story.ids.size(), expected.size()) << id;
      ASSERT_TRUE(std::equal(story.ids.begin(), story.ids.end(), expected.begin()))
          << id << ": what was told before the end must be a prefix of the answer";
      totals->aborts += story.finish() == FinishReason::kAbort;
      totals->errors += story.finish() == FinishReason::kError;
    }
  }
  const MetricsSnapshot m = h.engine->Metrics();
  EXPECT_EQ(m.generation_tokens, tokens);
  uint64_t finished = 0;
  for (uint64_t n : m.finished) finished += n;
  EXPECT_EQ(finished, sent.size());
  EXPECT_EQ(m.requests_running + m.requests_waiting, 0);
  EXPECT_EQ(m.kv_cache_usage, 0);
  totals->steps += m.steps;
  totals->preemptions += m.preemptions;
  totals->hits += m.prefix_cache_hits;
  totals->accepted += m.spec_decode_accepted_tokens;
  totals->rejected += m.spec_decode_draft_tokens - m.spec_decode_accepted_tokens;
  totals->checkpoints += m.state_checkpoint_hits;
}

TEST(EngineSimulation, TenThousandStepsOfATinyPoolLoseAndDoubleNothing) {
  Totals totals;
  for (uint64_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    Live(seed, 200, &totals);
  }
  EXPECT_GE(totals.steps, 10'000u);
  EXPECT_GT(totals.preemptions, 100u);
  EXPECT_GT(totals.hits, 100u);
  EXPECT_GT(totals.aborts, 50u);
  EXPECT_GT(totals.errors, 50u);
  EXPECT_GT(totals.refused, 50u);
  EXPECT_GT(totals.complete, 1000u);
  EXPECT_GT(totals.accepted, 300u);
  EXPECT_GT(totals.rejected, 300u);
  EXPECT_GT(totals.checkpoints, 10u);
}

TEST(EngineSimulation, TheSameSeedIsTheSameLife) {
  Totals a, b;
  Live(3, 100, &a);
  Live(3, 100, &b);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.preemptions, b.preemptions);
  EXPECT_EQ(a.hits, b.hits);
}

}  // namespace
}  // namespace weft::engine
