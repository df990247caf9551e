// Drafts are verified, and nothing but the number of steps tells that there were any.
// Covers src/engine/draft.cc src/engine/speculation/draft_inputs.cc src/engine/commit.cc
#include <gtest/gtest.h>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Expect;
using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

using Ids = std::vector<int32_t>;

HarnessConfig Speculating(int32_t tokens, SpeculationMethod method = SpeculationMethod::kMtp) {
  HarnessConfig c;
  c.engine.speculation = {.method = method, .tokens = tokens, .lookup_min = 1};
  c.executor.limits.draft_head = method == SpeculationMethod::kMtp;
  c.executor.limits.draft_tokens = tokens;
  c.executor.limits.seqs_max = 8;
  c.executor.limits.rows_max = 8 * (1 + tokens);
  return c;
}
// With a recurrent state beside the cache.
HarnessConfig Recurrent(int32_t tokens) {
  HarnessConfig c = Speculating(tokens);
  c.executor.limits.states = c.executor.limits.seqs_max + 1 + 4;
  return c;
}

TEST(EngineSpeculation, TheAnswerIsThatWithoutDraftsInFewerSteps) {
  for (const auto method : {SpeculationMethod::kMtp, SpeculationMethod::kNgram}) {
    for (const int32_t k : {1, 2, 4}) {
      Harness h(Speculating(k, method));
      Rng rng(3);
      std::map<std::string, Ids> prompts;
      for (const char* id : {"a", "b", "c"}) {
        prompts[id] = RandomPrompt(&rng, 11);
        // What came before comes again, for those who look back.
        if (method == SpeculationMethod::kNgram) {
          const Ids answer = Expect(h.executor->model(), prompts[id], Greedy(20));
          prompts[id].insert(prompts[id].end(), answer.begin(), answer.end());
        }
        ASSERT_TRUE(h.Submit(id, prompts[id], Greedy(40)).ok());
      }
      h.Drain();
      for (const auto& [id, prompt] : prompts)
        EXPECT_EQ(h.stories[id].ids, Expect(h.executor->model(), prompt, Greedy(40))) << id;
      const MetricsSnapshot m = h.engine->Metrics();
      EXPECT_GT(m.spec_decode_accepted_tokens, 0u);
      EXPECT_GT(m.spec_decode_draft_tokens, m.spec_decode_accepted_tokens) << "some were wrong";
      if (method == SpeculationMethod::kMtp) {
        EXPECT_LT(m.steps, 35u) << k;
      }
      uint64_t by_position = 0;
      for (const uint64_t n : m.spec_decode_accepted_per_pos) by_position += n;
      EXPECT_EQ(by_position, m.spec_decode_accepted_tokens);
      h.ExpectClean();
    }
  }
}

// Random, with everything that looks at what was generated: drafts count as output for the rows
// behind them.
TEST(EngineSpeculation, RandomAnswersAreThoseWithoutDraftsToo) {
  uint64_t accepted = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Harness h(Recurrent(3));
    Rng rng(seed);
    const Ids prompt = RandomPrompt(&rng, 1 + static_cast<int32_t>(rng.Below(20)));
    SamplingParams p{.temperature = 0.3f + 0.1f * static_cast<float>(rng.Below(8)),
                     .seed = rng.Next(),
                     .max_tokens = 30};
    if (rng.Below(2) == 0) p.frequency_penalty = 1.5f;
    if (rng.Below(2) == 0) p.repetition_penalty = 1.3f;
    if (rng.Below(2) == 0) p.top_p = 0.9f;
    if (rng.Below(2) == 0) p.min_tokens = static_cast<int32_t>(rng.Below(25));
    if (rng.Below(2) == 0) p.stop_token_ids = {3, 9, 11};
    if (rng.Below(2) == 0) p.logprobs = 2;
    ASSERT_TRUE(h.Submit("r", prompt, p).ok());
    h.Drain();
    EXPECT_EQ(h.stories["r"].ids, Expect(h.executor->model(), prompt, p, *p.seed)) << seed;
    accepted += h.engine->Metrics().spec_decode_accepted_tokens;
    h.ExpectClean();
  }
  EXPECT_GT(accepted, 50u);
}

// A head that is the model itself guesses every token of a random answer if it draws as the row
// that verifies does: the same random number, penalties and bans. Greedy guesses mostly fail.
TEST(EngineSpeculation, DrawnDraftsAreDrawnAsTheRowThatVerifiesThem) {
  uint64_t greedy_accepted = 0, drafted = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    for (const bool drawn : {true, false}) {
      HarnessConfig c = Recurrent(3);
      c.engine.speculation.drawn = drawn;
      c.executor.draft_percent = 100;
      Harness h(c);
      Rng rng(seed);
      SamplingParams p{.temperature = 1.5f, .seed = rng.Next(), .max_tokens = 24};
      if (rng.Below(2) == 0) p.frequency_penalty = 1.5f;
      if (rng.Below(2) == 0) p.repetition_penalty = 1.3f;
      if (rng.Below(2) == 0) p.top_k = 9;
      if (rng.Below(2) == 0) p.logit_bias = {{5, 4.0f}, {6, -100.0f}};
      if (rng.Below(2) == 0) p.min_tokens = 20;
      if (rng.Below(2) == 0) p.stop_token_ids = {3, 9, 11};
      if (rng.Below(2) == 0) p.logprobs = 2;
      const Ids prompts[] = {RandomPrompt(&rng, 7), RandomPrompt(&rng, 12)};
      ASSERT_TRUE(h.Submit("random", prompts[0], p).ok());
      ASSERT_TRUE(h.Submit("greedy", prompts[1], Greedy(24)).ok());
      h.Drain();
      EXPECT_EQ(h.stories["random"].ids, Expect(h.executor->model(), prompts[0], p, *p.seed));
      EXPECT_EQ(h.stories["greedy"].ids, Expect(h.executor->model(), prompts[1], Greedy(24)));
      const MetricsSnapshot m = h.engine->Metrics();
      if (drawn) {
        // What a stop cuts off was no wrong guess.
        const bool stopped = h.stories["random"].finish() == FinishReason::kStop;
        EXPECT_GE(m.spec_decode_accepted_tokens + (stopped ? 3 : 0), m.spec_decode_draft_tokens)
            << seed;
        drafted += m.spec_decode_draft_tokens;
      } else {
        greedy_accepted += m.spec_decode_accepted_tokens;
      }
      h.ExpectClean();
    }
  }
  EXPECT_LT(greedy_accepted, drafted);
}

// What one verify step tells each of some requests: drafts of each, and what their rows sample, the
// last being the row behind all drafts.
std::vector<Ids> Verified(const std::vector<Ids>& drafts, const std::vector<Ids>& sampled) {
  HarnessConfig c = Speculating(3);
  Harness h(c);
  // All have the same number of drafts at hand; some get fewer. Ids of requests are their places.
  int phase = 0;
  std::vector<size_t> drafted(drafts.size(), 0);
  h.executor->after_draft = [&](size_t head, SampleOut* out) {
    // The heads of a draft step are those of the requests that still want one, in order.
    std::vector<size_t> wanting;
    for (size_t r = 0; r < drafts.size(); ++r) {
      if (drafted[r] == static_cast<size_t>(phase)) wanting.push_back(r);
    }
    if (head >= wanting.size() || drafted[wanting[head]] >= drafts[wanting[head]].size()) {
      out->has_nan = 1;  // no guess
    } else {
      out->id = drafts[wanting[head]][drafted[wanting[head]]];
    }
    if (head + 1 == wanting.size()) {
      for (const size_t w : wanting) drafted[w] += drafted[w] < drafts[w].size() ? 1 : 100;
      ++phase;
    }
  };
  h.executor->after_row = [&](const plan::StepInputs& in, size_t head, SampleOut* out) {
    if (in.segments.front().position_begin == 0) return;  // the prompts
    size_t row = head;
    for (size_t r = 0; r < sampled.size(); ++r) {
      if (row < sampled[r].size()) {
        out->id = sampled[r][row];
        return;
      }
      row -= sampled[r].size();
    }
  };
  for (size_t r = 0; r < drafts.size(); ++r)
    EXPECT_TRUE(h.Submit(std::to_string(r), {static_cast<int32_t>(r) + 1, 2}, Greedy(40)).ok());
  h.engine->Step();
  h.engine->Step();
  std::vector<Ids> told;
  for (size_t r = 0; r < drafts.size(); ++r) {
    const Ids& ids = h.stories[std::to_string(r)].ids;
    told.emplace_back(ids.begin() + 1, ids.end());  // behind the prompt's token
  }
  h.engine->Stop(/*drain=*/false);
  h.Drain();
  return told;
}

// Rows of spec/engine 5.A: the first mismatch still tells what was sampled there, and the last row
// is a token more.
TEST(EngineSpeculation, AcceptanceRows) {
  struct Row {
    const char* name;
    std::vector<Ids> drafts, sampled, told;
  };
  for (const Row& row : {
           Row{"T1 perfect match", {{1, 2, 3}}, {{1, 2, 3, 4}}, {{1, 2, 3, 4}}},
           Row{"T2 early mismatch", {{1, 2, 3}}, {{1, 5, 3, 4}}, {{1, 5}}},
           Row{"T4 one draft", {{1}}, {{1, 2}}, {{1, 2}}},
           Row{"T4 no draft", {{}}, {{5}}, {{5}}},
           Row{"T5 mismatches at different rows",
               {{1, 2, 3}, {4, 5, 6}},
               {{1, 2, 7, 9}, {4, 8, 6, 9}},
               {{1, 2, 7}, {4, 8}}},
           Row{"first draft wrong", {{1, 2, 3}}, {{7, 2, 3, 4}}, {{7}}},
       }) {
    EXPECT_EQ(Verified(row.drafts, row.sampled), row.told) << row.name;
  }
}

// T7 of spec/engine 5.A: a seeded request says the same every time, whoever is beside it.
TEST(EngineSpeculation, T7ASeededRequestIsTheSameBesideAnybody) {
  for (const int32_t k : {1, 3, 5}) {
    HarnessConfig c = Speculating(k);
    c.executor.limits.vocab_size = 1000;
    std::map<std::string, Ids> first;
    for (int round = 0; round < 20; ++round) {
      Harness h(c);
      Rng prompts(9), others(static_cast<uint64_t>(round));
      for (int i = 0; i < 3; ++i) {
        SamplingParams p{.temperature = 1.5f, .seed = 40u + i, .max_tokens = 12};
        if (i == 2) p.temperature = 0;
        ASSERT_TRUE(
            h.Submit("seeded " + std::to_string(i), RandomPrompt(&prompts, 6, 1000), p).ok());
        const auto length = 1 + static_cast<int32_t>(others.Below(9));
        ASSERT_TRUE(h.Submit("other " + std::to_string(i), RandomPrompt(&others, length, 1000),
                             {.temperature = 2, .seed = others.Next(), .max_tokens = length})
                        .ok());
      }
      h.Drain();
      for (int i = 0; i < 3; ++i) {
        const std::string id = "seeded " + std::to_string(i);
        if (round == 0) first[id] = h.stories[id].ids;
        EXPECT_EQ(h.stories[id].ids, first[id]) << id << " with " << k << " drafts";
      }
      h.ExpectClean();
    }
  }
}

// T16 of spec/engine 5.A: rate 1 takes all drafts and one more token, rate 0 one token a step.
TEST(EngineSpeculation, SyntheticRatesDecideHowManyStepsThereAre) {
  for (const double rate : {0.0, 1.0}) {
    HarnessConfig c = Speculating(2);
    c.engine.speculation.synthetic = {rate, rate};
    Harness h(c);
    ASSERT_TRUE(h.Submit("s", {1, 2, 3}, Greedy(31)).ok());
    h.Drain();
    EXPECT_EQ(h.stories["s"].ids.size(), 31u);
    // The prompt gives one token; then 3 a step, or 1.
    EXPECT_EQ(h.engine->Metrics().steps, rate == 1 ? 11u : 31u);
  }
}

// T40: what is produced behind a stop or the last token is not told.
TEST(EngineSpeculation, AnEndAmongDraftsIsTheEnd) {
  HarnessConfig c = Speculating(4);
  c.executor.draft_percent = 100;
  Rng rng(5);
  const Ids prompt = RandomPrompt(&rng, 9);
  for (int32_t length = 1; length <= 9; ++length) {
    Harness h(c);
    const Ids whole = Expect(h.executor->model(), prompt, Greedy(12));
    ASSERT_TRUE(h.Submit("length", prompt, Greedy(length)).ok());
    h.Drain();
    EXPECT_EQ(h.stories["length"].ids, Ids(whole.begin(), whole.begin() + length));
    EXPECT_EQ(h.stories["length"].finish(), FinishReason::kLength);
    SamplingParams p = Greedy(12);
    p.stop_token_ids = {whole[static_cast<size_t>(length) - 1]};
    ASSERT_TRUE(h.Submit("stop", prompt, p).ok());
    h.Drain();
    EXPECT_EQ(h.stories["stop"].ids, Expect(h.executor->model(), prompt, p));
    EXPECT_EQ(h.stories["stop"].finish(), FinishReason::kStop);
    h.ExpectClean();
  }
}

TEST(EngineSpeculation, PromptsAsLongAsAStepOfDraftsAndSequencesThatReachTheEnd) {
  for (const int32_t k : {1, 4}) {
    for (const int32_t length : {1, k, k + 1, k + 2, 4, 8}) {
      HarnessConfig c = Recurrent(k);
      c.engine.max_model_len = length + 7;
      Harness h(c);
      Rng rng(static_cast<uint64_t>(length));
      const Ids prompt = RandomPrompt(&rng, length);
      ASSERT_TRUE(h.Submit("p", prompt, Greedy(100)).ok());
      h.Drain();
      EXPECT_EQ(h.stories["p"].ids, Expect(h.executor->model(), prompt, Greedy(7)));
      h.ExpectClean();
    }
  }
}

TEST(EngineSpeculation, AllDraftsWrongIsOneTokenAStep) {
  HarnessConfig c = Recurrent(4);
  c.executor.draft_percent = 0;
  Harness h(c);
  ASSERT_TRUE(h.Submit("w", {5, 6, 7}, Greedy(20)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["w"].ids, Expect(h.executor->model(), {5, 6, 7}, Greedy(20)));
  const MetricsSnapshot m = h.engine->Metrics();
  EXPECT_EQ(m.steps, 20u);
  EXPECT_EQ(m.spec_decode_accepted_tokens, 0u);
  EXPECT_GT(m.spec_decode_draft_tokens, 0u);
  h.ExpectClean();
}

TEST(EngineSpeculation, AnAbortedSequenceTakesItsDraftsAlong) {
  Harness h(Recurrent(4));
  ASSERT_TRUE(h.Submit("gone", {1, 2, 3}, Greedy(40)).ok());
  ASSERT_TRUE(h.Submit("stays", {4, 5}, Greedy(40)).ok());
  for (int i = 0; i < 4; ++i) h.engine->Step();
  h.engine->Abort("gone");
  ASSERT_TRUE(h.Submit("next", {6, 7, 8, 9}, Greedy(40)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["gone"].finish(), FinishReason::kAbort);
  EXPECT_EQ(h.stories["stays"].ids, Expect(h.executor->model(), {4, 5}, Greedy(40)));
  EXPECT_EQ(h.stories["next"].ids, Expect(h.executor->model(), {6, 7, 8, 9}, Greedy(40)));
  h.ExpectClean();
}

// Drafts never cost a sequence its blocks or its place.
TEST(EngineSpeculation, ATightPoolAndATightBudgetDropDraftsFirst) {
  HarnessConfig c = Recurrent(4);
  c.engine.max_num_seqs = 4;
  c.engine.max_num_batched_tokens = 9;
  c.executor.limits.pages = 1 + 4 * 6;  // each of the four fits exactly
  Harness h(c);
  Rng rng(8);
  std::map<std::string, Ids> prompts;
  for (const char* id : {"a", "b", "c", "d"}) {
    prompts[id] = RandomPrompt(&rng, 8);
    ASSERT_TRUE(h.Submit(id, prompts[id], Greedy(16)).ok());
  }
  h.executor->before_step = [&](uint64_t, const plan::StepInputs& in) {
    EXPECT_LE(in.ids.size(), 9u);
    return Status::Ok();
  };
  h.Drain();
  for (const auto& [id, prompt] : prompts)
    EXPECT_EQ(h.stories[id].ids, Expect(h.executor->model(), prompt, Greedy(16))) << id;
  EXPECT_EQ(h.engine->Metrics().preemptions, 0u);
  EXPECT_GT(h.engine->Metrics().spec_decode_accepted_tokens, 0u);
  h.ExpectClean();
}

TEST(EngineSpeculation, NaNAmongDraftsIsAnErrorWhereItIsReadAndNoneElsewhere) {
  // In a draft: no guess, and nobody is told.
  {
    Harness h(Speculating(3));
    h.executor->after_draft = [](size_t, SampleOut* out) { out->has_nan = 1; };
    ASSERT_TRUE(h.Submit("d", {1, 2}, Greedy(10)).ok());
    h.Drain();
    EXPECT_EQ(h.stories["d"].ids, Expect(h.executor->model(), {1, 2}, Greedy(10)));
    EXPECT_EQ(h.engine->Metrics().spec_decode_draft_tokens, 0u);
    h.ExpectClean();
  }
  // In rows behind a rejected draft: they were never read.
  {
    HarnessConfig c = Speculating(3);
    c.executor.draft_percent = 0;
    Harness h(c);
    h.executor->after_row = [](const plan::StepInputs& in, size_t head, SampleOut* out) {
      if (in.head_rows.size() > 1 && head > 0) out->has_nan = 1;
    };
    ASSERT_TRUE(h.Submit("r", {1, 2}, Greedy(10)).ok());
    h.Drain();
    EXPECT_EQ(h.stories["r"].ids, Expect(h.executor->model(), {1, 2}, Greedy(10)));
  }
  // In a row that counts: the tokens before it stand, then the error.
  {
    HarnessConfig c = Speculating(3);
    c.executor.draft_percent = 100;
    Harness h(c);
    h.executor->after_row = [](const plan::StepInputs& in, size_t head, SampleOut* out) {
      if (in.head_rows.size() > 1 && head == 2) out->has_nan = 1;
    };
    ASSERT_TRUE(h.Submit("n", {1, 2}, Greedy(10)).ok());
    h.Drain();
    const Ids whole = Expect(h.executor->model(), {1, 2}, Greedy(10));
    EXPECT_EQ(h.stories["n"].ids, Ids(whole.begin(), whole.begin() + 3))
        << "one of the prompt, two drafts";
    EXPECT_EQ(h.stories["n"].finish(), FinishReason::kError);
    h.ExpectClean();
  }
}

TEST(EngineSpeculation, AFailedDraftStepEndsItsRequestsAndNoOthers) {
  Harness h(Recurrent(2));
  bool fail = false;
  h.executor->before_draft = [&](uint64_t) {
    return fail ? Status::Internal("injected") : Status::Ok();
  };
  ASSERT_TRUE(h.Submit("a", {1, 2}, Greedy(10)).ok());
  h.engine->Step();
  fail = true;
  h.engine->Step();
  fail = false;
  EXPECT_EQ(h.stories["a"].finish(), FinishReason::kError);
  ASSERT_TRUE(h.Submit("b", {1, 2}, Greedy(10)).ok());
  h.Drain();
  EXPECT_EQ(h.stories["b"].ids, Expect(h.executor->model(), {1, 2}, Greedy(10)));
  h.ExpectClean();
}

// The negative control: a state that takes in a draft too many is a state that is wrong.
TEST(EngineSpeculation, AnAcceptedCountOffByOneIsNoticed) {
  HarnessConfig c = Recurrent(3);
  c.faults.accepted_off_by_one = true;
  Harness h(c);
  ASSERT_TRUE(h.Submit("x", {1, 2, 3}, Greedy(30)).ok());
  h.Drain();
  EXPECT_GT(h.executor->violations(), 0u);
  EXPECT_EQ(h.executor->first_violation(), "a stale or foreign state is read");
  EXPECT_NE(h.stories["x"].ids, Expect(h.executor->model(), {1, 2, 3}, Greedy(30)));
}

TEST(EngineSpeculation, WhereDraftsDoNotPayTheyStop) {
  HarnessConfig c = Speculating(4);
  c.engine.speculation.automatic = true;
  c.executor.draft_percent = 10;
  c.executor.draft_ns = c.executor.step_ns;
  Harness h(c);
  h.executor->drafts_are_whole = false;
  Rng rng(4);
  for (int i = 1; i < 31; ++i) {
    const Ids prompt = RandomPrompt(&rng, 5);
    ASSERT_TRUE(h.Submit(std::to_string(i), prompt, Greedy(40)).ok());
    const uint64_t before = h.executor->draft_steps();
    h.Drain();
    EXPECT_EQ(h.stories[std::to_string(i)].ids, Expect(h.executor->model(), prompt, Greedy(40)));
    if (i > 5) {
      EXPECT_EQ(h.executor->draft_steps(), before) << i;
    }
  }
  const uint64_t drafts = h.engine->Metrics().spec_decode_drafts;
  EXPECT_GT(drafts, 0u);
  // Now and then one tries again.
  for (int i = 31; i < 33; ++i)
    ASSERT_TRUE(h.Submit(std::to_string(i), RandomPrompt(&rng, 5), Greedy(40)).ok());
  h.Drain();
  EXPECT_GT(h.engine->Metrics().spec_decode_drafts, drafts);
  h.ExpectClean();
}

TEST(EngineSpeculation, AWrongConfigurationIsAnErrorAtStart) {
  const auto refusal = [](HarnessConfig c) {
    support::HashExecutor executor(c.executor);
    ManualClock clock(1);
    NullLog log;
    return EngineImpl::Create(c.engine, &executor, &clock, &log).status().message();
  };
  HarnessConfig c = Speculating(2);
  c.engine.speculation.tokens = 3;
  EXPECT_EQ(refusal(c),
            "--speculative-config: num_speculative_tokens is 3; the plans were made for 2");
  c = Speculating(2);
  c.executor.limits.draft_head = false;
  EXPECT_NE(refusal(c).find("method mtp needs the checkpoint's draft head"), std::string::npos);
  c = Speculating(2);
  c.engine.speculation.tokens = 0;
  EXPECT_NE(refusal(c).find("num_speculative_tokens is 0"), std::string::npos);
}

}  // namespace
}  // namespace weft::engine
