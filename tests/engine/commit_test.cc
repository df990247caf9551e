// What a step's results do to the requests in it: ends, errors, logprobs, seeds.
#include <gtest/gtest.h>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;
using support::SequenceHash;

// vLLM's test_min_tokens.py, by ids: (min, max) with an end of sequence that the model wants at
// once.
TEST(Commit, MinTokensHoldsTheEndBack) {
  struct Row {
    int32_t min, max;
    bool ignore_eos;
  };
  for (const Row& row : {Row{0, 10, false}, Row{15, 15, false}, Row{20, 20, true},
                         Row{5, 15, false}, Row{50, 60, false}}) {
    HarnessConfig config;
    for (int32_t id = 0; id < 16; ++id) config.engine.eos_token_ids.push_back(id * 4);
    Harness h(config);
    Rng rng(1);
    const auto prompt = RandomPrompt(&rng, 6);
    SamplingParams p{.temperature = 0,
                     .max_tokens = row.max,
                     .min_tokens = row.min,
                     .ignore_eos = row.ignore_eos};
    ASSERT_TRUE(h.Submit("a", prompt, p).ok());
    h.Drain();
    const support::Story& story = h.stories["a"];
    EXPECT_EQ(story.ids, Expect(h.executor->model(), prompt, p, 0, config.engine.eos_token_ids));
    EXPECT_GE(static_cast<int32_t>(story.ids.size()), std::max(row.min, 1));
    if (row.min == row.max) {
      EXPECT_EQ(static_cast<int32_t>(story.ids.size()), row.max);
    }
    if (row.ignore_eos) {
      EXPECT_EQ(story.finish(), FinishReason::kLength);
    }
    h.ExpectClean();
  }
}

TEST(Commit, AStopIdEndsAndIsNamed) {
  Harness h({});
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 6);
  const auto free = Expect(h.executor->model(), prompt, Greedy(10));
  SamplingParams p = Greedy(10);
  p.stop_token_ids = {free[4]};
  ASSERT_TRUE(h.Submit("a", prompt, p).ok());
  h.Drain();
  const support::Story& story = h.stories["a"];
  EXPECT_EQ(story.events.back().finish, FinishReason::kStop);
  EXPECT_EQ(story.events.back().stop_token, free[4]);
  EXPECT_EQ(story.ids.back(), free[4]) << "the stop id itself is told";
  EXPECT_EQ(h.executor->sample_steps(), 0u) << "a stop id needs no sampler";
}

TEST(Commit, TheModelsLengthEndsARequestAndAStopIdThereIsAStop) {
  HarnessConfig config;
  config.engine.max_model_len = 12;
  Harness h(config);
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 6);
  ASSERT_TRUE(h.Submit("a", prompt, Greedy(100)).ok());
  SamplingParams p = Greedy(100);
  p.stop_token_ids = {Expect(h.executor->model(), prompt, Greedy(6))[5]};
  ASSERT_TRUE(h.Submit("b", prompt, p).ok());
  h.Drain();
  EXPECT_EQ(h.stories["a"].ids.size(), 6u);
  EXPECT_EQ(h.stories["a"].finish(), FinishReason::kLength);
  EXPECT_EQ(h.stories["b"].finish(), FinishReason::kStop);
}

TEST(Commit, ANaNEndsItsRequestAloneAndIsNotCached) {
  Harness h({});
  Rng rng(1);
  const auto bad = RandomPrompt(&rng, 20);
  const auto good = RandomPrompt(&rng, 20);
  bool broken = true;
  const auto marker = bad[19];
  h.executor->after_row = [&](const plan::StepInputs& in, size_t head, SampleOut* out) {
    const int32_t row = in.head_rows[head];
    if (broken && in.positions[row] == 19 && in.ids[row] == marker) out->has_nan = 1;
  };
  ASSERT_NE(marker, good[19]);
  ASSERT_TRUE(h.Submit("bad", bad, Greedy(5)).ok());
  ASSERT_TRUE(h.Submit("good", good, Greedy(5)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["bad"].finish(), FinishReason::kError);
  EXPECT_NE(h.stories["bad"].events.back().error.message().find("NaN"), std::string::npos);
  EXPECT_EQ(h.stories["good"].ids, Expect(h.executor->model(), good, Greedy(5)));
  broken = false;
  ASSERT_TRUE(h.Submit("again", bad, Greedy(5)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["again"].events[0].cached_tokens, 0) << "nothing of the NaN was kept";
  EXPECT_EQ(h.stories["again"].ids, Expect(h.executor->model(), bad, Greedy(5)));
  h.ExpectClean();
}

TEST(Commit, AnIdOutsideOfTheVocabularyIsNeverTold) {
  for (int32_t id : {-1, 64, 1 << 30}) {
    Harness h({});
    h.executor->after_row = [id](const plan::StepInputs&, size_t, SampleOut* out) { out->id = id; };
    ASSERT_TRUE(h.Submit("a", {1, 2}, Greedy(5)).ok());
    h.Drain();
    EXPECT_EQ(h.stories["a"].finish(), FinishReason::kError);
    EXPECT_TRUE(h.stories["a"].ids.empty());
    h.ExpectClean();
  }
}

TEST(Commit, AFailedStepEndsOnlyTheRequestsInIt) {
  HarnessConfig config;
  config.engine.max_num_seqs = 2;
  Harness h(config);
  h.executor->before_step = [](uint64_t step, const plan::StepInputs&) {
    return step == 2 ? Status::Internal("injected") : Status::Ok();
  };
  Rng rng(1);
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 4; ++i) {
    prompts.push_back(RandomPrompt(&rng, 10));
    ASSERT_TRUE(h.Submit(std::to_string(i), prompts[i], Greedy(5)).ok());
  }
  h.Drain();
  for (int i = 0; i < 4; ++i) {
    const support::Story& story = h.stories[std::to_string(i)];
    const auto expected = Expect(h.executor->model(), prompts[i], Greedy(5));
    if (i < 2) {
      EXPECT_EQ(story.finish(), FinishReason::kError);
      EXPECT_EQ(story.ids, std::vector<int32_t>(expected.begin(), expected.begin() + 1));
    } else {
      EXPECT_EQ(story.ids, expected);
    }
  }
  EXPECT_TRUE(h.engine->Health().ok());
  h.ExpectClean();
}

TEST(Commit, ADeadExecutorEndsAllAndRefusesWhatComes) {
  HarnessConfig config;
  config.engine.max_num_seqs = 2;
  Harness h(config);
  h.executor->before_step = [](uint64_t step, const plan::StepInputs&) {
    return step == 2 ? Status::Deadline("rank 1 waited 5 s for rank 0") : Status::Ok();
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(h.Submit(std::to_string(i), {1, 2, i}, Greedy(5)).ok());
  h.engine->Run();  // returns, for there is nothing left to do
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(h.stories[std::to_string(i)].finish(), FinishReason::kError) << i;
  }
  h.ExpectClean();
  EXPECT_EQ(h.engine->Health().code(), StatusCode::kUnavailable);
  const Status refused = h.Submit("late", {1}, Greedy(1));
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_NE(refused.message().find("rank 1 waited"), std::string::npos);
  EXPECT_EQ(h.executor->steps(), 2u) << "it is not asked again";
}

TEST(Commit, LogprobsAreThoseOfTheRawLogits) {
  Harness h({});
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 6);
  SamplingParams p = Greedy(4);
  p.logprobs = 3;
  ASSERT_TRUE(h.Submit("a", prompt, p).ok());
  SamplingParams wider = p;
  wider.logprobs = 5;
  ASSERT_TRUE(h.Submit("wider", RandomPrompt(&rng, 3), wider).ok());
  ASSERT_TRUE(h.Submit("plain", prompt, Greedy(4)).ok());
  h.Drain();
  std::vector<int32_t> tokens = prompt;
  for (const TokenEvent& event : h.stories["a"].events) {
    const uint64_t hash = SequenceHash(h.executor->model(), tokens);
    const SampleOut expected = h.executor->model().Score(hash, event.id);
    ASSERT_TRUE(event.logprob.has_value());
    EXPECT_EQ(event.logprob->logprob, expected.logprob);
    EXPECT_EQ(event.logprob->rank, 1) << "greedy takes the best";
    ASSERT_EQ(event.top.size(), 3u);
    EXPECT_EQ(event.top[0].id, event.id);
    EXPECT_GE(event.top[1].logprob, event.top[2].logprob);
    tokens.push_back(event.id);
  }
  EXPECT_EQ(h.stories["wider"].events[0].top.size(), 5u);
  EXPECT_FALSE(h.stories["plain"].events[0].logprob.has_value());
  EXPECT_EQ(h.stories["plain"].ids, h.stories["a"].ids) << "asking changes no token";
}

TEST(Commit, PromptLogprobsAreTheSameInOneShotInChunksAndAfterPreemption) {
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 30);
  SamplingParams p = Greedy(4);
  p.prompt_logprobs = 2;
  for (int rows : {2, 5, 64}) {
    for (int pages : {12, 65}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(pages) + " pages");
      HarnessConfig config;
      config.executor.limits.rows_max = rows;
      config.executor.limits.pages = pages;
      config.engine.max_num_seqs = 2;
      config.engine.max_model_len = 40;
      Harness h(config);
      ASSERT_TRUE(h.Submit("older", RandomPrompt(&rng, 4), Greedy(30)).ok());
      ASSERT_TRUE(h.Submit("a", prompt, p).ok());
      h.Drain();
      const support::Story& story = h.stories["a"];
      EXPECT_EQ(story.ids, Expect(h.executor->model(), prompt, p));
      ASSERT_EQ(story.events[0].prompt_logprobs.size(), 29u);
      for (size_t i = 0; i < 29; ++i) {
        const uint64_t hash = SequenceHash(h.executor->model(), std::span(prompt).first(i + 1));
        const PromptLogprob& got = story.events[0].prompt_logprobs[i];
        const SampleOut expected = h.executor->model().Score(hash, prompt[i + 1]);
        EXPECT_EQ(got.token.id, prompt[i + 1]);
        EXPECT_EQ(got.token.logprob, expected.logprob);
        EXPECT_EQ(got.token.rank, expected.rank);
        EXPECT_EQ(got.top.size(), 2u);
      }
      if (rows == 2) {
        EXPECT_GT(h.engine->Metrics().steps, 29u) << "one row a step beside the other";
      }
      if (pages == 12 && rows == 5) {
        EXPECT_GT(h.engine->Metrics().preemptions, 0u);
      }
      h.ExpectClean();
    }
  }
}

TEST(Commit, ASeedIsReportedAndGivesTheSameAnswerAgain) {
  HarnessConfig config;
  config.engine.seed = 77;
  Rng rng(1);
  const auto prompt = RandomPrompt(&rng, 6);
  SamplingParams p{.temperature = 1.0f, .max_tokens = 12, .ignore_eos = true};
  Harness h(config);
  ASSERT_TRUE(h.Submit("a", prompt, p).ok());
  ASSERT_TRUE(h.Submit("b", prompt, p).ok());
  h.Drain();
  const uint64_t seed = h.stories["a"].events[0].seed;
  EXPECT_NE(seed, h.stories["b"].events[0].seed);
  EXPECT_NE(h.stories["a"].ids, h.stories["b"].ids);
  p.seed = seed;
  ASSERT_TRUE(h.Submit("again", prompt, p).ok());
  h.Drain();
  EXPECT_EQ(h.stories["again"].ids, h.stories["a"].ids);
  EXPECT_EQ(h.stories["again"].events[0].seed, seed);

  Harness other(config);
  p.seed.reset();
  ASSERT_TRUE(other.Submit("a", prompt, p).ok());
  other.Drain();
  EXPECT_EQ(other.stories["a"].ids, h.stories["a"].ids) << "--seed makes a whole run repeatable";
}

TEST(Commit, LogitsHashesGoToThoseWhoAsk) {
  Harness h({});
  auto request = h.Make("a", {1, 2, 3}, Greedy(3));
  request->hash_logits = true;
  ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  ASSERT_TRUE(h.Submit("b", {1, 2, 3}, Greedy(3)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["a"].events[0].logits_hash,
            SequenceHash(h.executor->model(), std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(h.stories["b"].events[0].logits_hash, 0u);
}

}  // namespace
}  // namespace weft::engine
