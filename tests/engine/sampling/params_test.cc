#include "engine/sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace weft::engine {
namespace {

const RequestLimits kLimits{
    .vocab_size = 64, .max_model_len = 32, .kv_tokens = 20, .top_logprobs_max = 5};

Request Good() {
  Request r;
  r.id = "r";
  r.prompt = {1, 2, 3};
  r.sampling.max_tokens = 8;
  r.sink = [](TokenEvent) {};
  return r;
}

struct Bad {
  const char* field;  // must be named in the message
  std::function<void(Request*)> change;
};

TEST(Params, EveryBadValueIsRefusedByName) {
  const float nan = std::nanf("");
  const float inf = INFINITY;
  const std::vector<Bad> bad{
      {"no id", [](Request* r) { r->id.clear(); }},
      {"hear", [](Request* r) { r->sink = nullptr; }},
      {"prompt is empty", [](Request* r) { r->prompt.clear(); }},
      {"prompt[1]", [](Request* r) { r->prompt[1] = -1; }},
      {"prompt[2]", [](Request* r) { r->prompt[2] = 64; }},
      {"--max-model-len", [](Request* r) { r->prompt.assign(32, 1); }},
      {"KV cache", [](Request* r) { r->prompt.assign(16, 1); }},
      {"temperature", [&](Request* r) { r->sampling.temperature = nan; }},
      {"temperature", [&](Request* r) { r->sampling.temperature = inf; }},
      {"temperature", [](Request* r) { r->sampling.temperature = -0.5f; }},
      {"top_p", [](Request* r) { r->sampling.top_p = 0; }},
      {"top_p", [](Request* r) { r->sampling.top_p = 1.01f; }},
      {"top_p", [&](Request* r) { r->sampling.top_p = nan; }},
      {"min_p", [](Request* r) { r->sampling.min_p = -0.1f; }},
      {"min_p", [](Request* r) { r->sampling.min_p = 1.1f; }},
      {"top_k", [](Request* r) { r->sampling.top_k = -2; }},
      {"repetition_penalty", [](Request* r) { r->sampling.repetition_penalty = 0; }},
      {"repetition_penalty", [&](Request* r) { r->sampling.repetition_penalty = inf; }},
      {"presence_penalty", [](Request* r) { r->sampling.presence_penalty = 2.1f; }},
      {"frequency_penalty", [&](Request* r) { r->sampling.frequency_penalty = nan; }},
      {"max_tokens", [](Request* r) { r->sampling.max_tokens = 0; }},
      {"min_tokens", [](Request* r) { r->sampling.min_tokens = -1; }},
      {"min_tokens", [](Request* r) { r->sampling.min_tokens = 9; }},
      {"stop_token_ids[0]", [](Request* r) { r->sampling.stop_token_ids = {151645}; }},
      {"stop_token_ids[1]",
       [](Request* r) {
         r->sampling.stop_token_ids = {0, -3};
       }},
      {"stop_token_ids", [](Request* r) { r->sampling.stop_token_ids.assign(129, 1); }},
      {"logit_bias",
       [](Request* r) {
         r->sampling.logit_bias = {{64, 1}};
       }},
      {"logit_bias",
       [](Request* r) {
         r->sampling.logit_bias = {{-1, 1}};
       }},
      {"logit_bias",
       [&](Request* r) {
         r->sampling.logit_bias = {{1, nan}};
       }},
      {"logit_bias",
       [](Request* r) {
         r->sampling.logit_bias = {{1, 100.5f}};
       }},
      {"twice",
       [](Request* r) {
         r->sampling.logit_bias = {{1, 1}, {2, 1}, {1, 2}};
       }},
      {"logprobs", [](Request* r) { r->sampling.logprobs = 6; }},
      {"logprobs", [](Request* r) { r->sampling.logprobs = -1; }},
      {"prompt_logprobs", [](Request* r) { r->sampling.prompt_logprobs = 6; }},
  };
  ASSERT_TRUE(Validate(Good(), kLimits).ok());
  for (const Bad& b : bad) {
    Request r = Good();
    b.change(&r);
    const Status status = Validate(r, kLimits);
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << b.field;
    EXPECT_NE(status.message().find(b.field), std::string::npos) << status.message();
  }
}

TEST(Params, WhatCanNeverFitIsRefusedAndWhatJustFitsIsNot) {
  Request r = Good();
  r.prompt.assign(13, 1);  // 13 + 8 - 1 = 20 tokens of cache
  EXPECT_TRUE(Validate(r, kLimits).ok());
  r.prompt.assign(14, 1);
  EXPECT_FALSE(Validate(r, kLimits).ok());
}

TEST(Params, ANumberAsLargeAsIntDoesNotOverflow) {
  Request r = Good();
  r.sampling.max_tokens = INT32_MAX;
  RequestLimits limits = kLimits;
  limits.kv_tokens = 100;
  EXPECT_TRUE(Validate(r, limits).ok()) << "it ends at the model's length";
}

TEST(Params, SmallTemperaturesAreGreedyOrAHundredth) {
  EXPECT_EQ(EffectiveTemperature(0), 0);
  EXPECT_EQ(EffectiveTemperature(1e-6f), 0);
  EXPECT_EQ(EffectiveTemperature(1e-3f), 0.01f);
  EXPECT_EQ(EffectiveTemperature(0.7f), 0.7f);
}

}  // namespace
}  // namespace weft::engine
