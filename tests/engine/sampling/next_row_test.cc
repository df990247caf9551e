#include "engine/sampling/next_row.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/sampling/params.h"

namespace weft::engine {
namespace {

Sequence Make(const SamplingParams& params, std::vector<int32_t> prompt) {
  Sequence s;
  s.request = std::make_unique<Request>();
  s.request->sampling = params;
  s.prompt_tokens = static_cast<int32_t>(prompt.size());
  s.seen = SeenTokens(prompt, 16);
  s.stop = StopMask(params, {});
  s.tokens = std::move(prompt);
  return s;
}

SampleRow Next(const Sequence& s, int32_t drafts, SeenTokens* seen) {
  SampleRow row = MakeSampleRow(s.sampling(), /*seed=*/7, /*choice=*/0);
  WriteNextRow(s, drafts, seen, &row);
  return row;
}

TEST(NextRow, BehindDraftsItIsWhatItWillBeBehindThoseTokens) {
  SamplingParams p{.temperature = 0.5f, .min_tokens = 3, .stop_token_ids = {9}};
  p.repetition_penalty = 1.2f;
  p.logprobs = 2;
  Sequence drafting = Make(p, {4, 2, 4});
  drafting.drafts = {5, 2, 8, 1};
  Sequence plain = Make(p, {4, 2, 4});
  SeenTokens seen[2];
  for (int32_t drafts = 0; drafts <= 4; ++drafts) {
    const SampleRow a = Next(drafting, drafts, &seen[0]);
    const SampleRow b = Next(plain, 0, &seen[1]);
    EXPECT_EQ(a.position, 3u + static_cast<uint32_t>(drafts));
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.logprobs, 2);
    ASSERT_EQ(a.seen, b.seen) << drafts;
    for (int32_t i = 0; i < a.seen; ++i) {
      EXPECT_EQ(a.seen_ids[i], b.seen_ids[i]) << drafts;
      EXPECT_EQ(a.seen_counts[i], b.seen_counts[i]) << drafts;
    }
    EXPECT_EQ(a.banned_count, drafts < 3 ? 1 : 0);
    EXPECT_EQ(a.banned_count, b.banned_count);
    if (drafts == 4) break;
    const int32_t token = drafting.drafts[static_cast<size_t>(drafts)];
    plain.tokens.push_back(token);
    plain.seen.Add(token);
  }
}

// T10 of spec/engine 5.A: a token that is penalised for having been drafted gives way to one whose
// logit is a little lower. What is verified is told up to the first row that differs.
TEST(NextRow, T10FrequencyPenaltiesCountDraftsAsOutput) {
  struct Row {
    std::vector<int32_t> drafts;
    int32_t earlier;
    float penalty;
    std::vector<int32_t> told;
  };
  for (const Row& row : {Row{{1, 1, 1}, 2, 1.5f, {1, 15}}, Row{{}, 3, 1.5f, {7}},
                         Row{{1, 1, 1}, 4, 0.7f, {1, 1, 15}}}) {
    SamplingParams p{.temperature = 0};
    p.frequency_penalty = row.penalty;
    Sequence s = Make(p, {0});
    s.tokens.push_back(row.earlier);
    s.seen.Add(row.earlier);
    s.drafts = row.drafts;
    std::vector<int32_t> told;
    for (int32_t j = 0; j <= static_cast<int32_t>(row.drafts.size()); ++j) {
      SeenTokens seen;
      const SampleRow next = Next(s, j, &seen);
      std::vector<float> logits(20, 0.0f);
      logits[row.drafts.empty() ? 7 : 1] = 100;
      logits[15] = 99;
      for (int32_t i = 0; i < next.seen; ++i)
        logits[next.seen_ids[i]] -=
            next.frequency_penalty * static_cast<float>(next.seen_counts[i]);
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      told.push_back(static_cast<int32_t>(best));
      if (j == static_cast<int32_t>(row.drafts.size()) || told.back() != row.drafts[j]) break;
    }
    EXPECT_EQ(told, row.told) << row.penalty;
  }
}

TEST(NextRow, IsAnArgmaxIfNothingElseIsAsked) {
  const auto with = [](auto change) {
    SamplingParams p{.temperature = 0};
    change(&p);
    Sequence s = Make(p, {1, 2});
    if (p.repetition_penalty == 1) s.seen = SeenTokens();
    for (const auto& [id, bias] : p.logit_bias) {
      s.bias_ids.push_back(id);
      s.bias.push_back(bias);
    }
    SeenTokens seen;
    return IsArgmax(Next(s, 0, &seen));
  };
  EXPECT_TRUE(with([](SamplingParams* p) { p->top_k = 5; }))
      << "filters never remove the largest logit";
  EXPECT_TRUE(with([](SamplingParams* p) { p->prompt_logprobs = 0; })) << "the prompt is past";
  EXPECT_FALSE(with([](SamplingParams* p) { p->temperature = 1; }));
  EXPECT_FALSE(with([](SamplingParams* p) { p->repetition_penalty = 1.1f; }));
  EXPECT_FALSE(with([](SamplingParams* p) { p->logit_bias = {{1, 1}}; }));
  EXPECT_FALSE(with([](SamplingParams* p) { p->logprobs = 0; }));
  EXPECT_FALSE(with([](SamplingParams* p) {
    p->min_tokens = 1;
    p->stop_token_ids = {3};
  }));
}

}  // namespace
}  // namespace weft::engine
