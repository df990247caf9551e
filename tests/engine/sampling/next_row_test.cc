#include "engine/sampling/next_row.h"

#include <gtest/gtest.h>

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
