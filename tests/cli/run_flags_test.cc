#include "cli/run_flags.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

RunFlags Asking() {
  RunFlags f;
  f.prompt = "hello";
  return f;
}

TEST(RunFlags, WhatWouldHaveNoEffectIsAnError) {
  EXPECT_TRUE(CheckRunFlags(Asking(), false).ok());
  const std::pair<const char*, void (*)(RunFlags&)> cases[] = {
      {"--prompt and --prompt-ids", [](RunFlags& f) { f.prompt_ids = "1"; }},
      {"--json needs", [](RunFlags& f) { f.prompt.reset(), f.json = true; }},
      {"--logprobs needs", [](RunFlags& f) { f.prompt.reset(), f.logprobs = 2; }},
      {"--system has no place with --raw",
       [](RunFlags& f) { f.system = "be brief", f.raw = true; }},
      {"--system has no place with --prompt-ids",
       [](RunFlags& f) { f.prompt.reset(), f.prompt_ids = "1", f.system = "x"; }},
      {"--raw has no effect",
       [](RunFlags& f) { f.prompt.reset(), f.prompt_ids = "1", f.raw = true; }},
      {"--min-tokens 300", [](RunFlags& f) { f.min_tokens = 300; }},
      {"--min-tokens 9", [](RunFlags& f) { f.min_tokens = 9, f.max_tokens = 8; }},
      {"--request-seed 5", [](RunFlags& f) { f.request_seed = 5; }},
      {"--trace x: --reference", [](RunFlags& f) { f.trace = "x", f.model.reference = true; }},
      {"--trace-events 7", [](RunFlags& f) { f.trace_events = 7; }},
  };
  for (const auto& [begin, spoil] : cases) {
    RunFlags f = Asking();
    spoil(f);
    const Status status = CheckRunFlags(f, true);
    EXPECT_TRUE(status.message().starts_with(begin)) << begin << ": " << status.message();
  }
}

TEST(RunFlags, AChatNeedsATerminal) {
  EXPECT_TRUE(CheckRunFlags(RunFlags(), true).ok());
  EXPECT_FALSE(CheckRunFlags(RunFlags(), false).ok());
}

TEST(RunFlags, IdsAreAList) {
  EXPECT_EQ(*ParseIds("7"), (std::vector<int32_t>{7}));
  EXPECT_EQ(*ParseIds("1,2,30"), (std::vector<int32_t>{1, 2, 30}));
  for (const char* text : {"", "1,", ",1", "1,,2", "1 2", "x", "1,-2", "4294967296"}) {
    EXPECT_FALSE(ParseIds(text).ok()) << text;
  }
}

TEST(RunFlags, MaxTokensIsNeverCutSilently) {
  RunFlags f = Asking();
  EXPECT_EQ(SamplingOf(f, 10, 1000)->max_tokens, kMaxTokens);
  EXPECT_EQ(SamplingOf(f, 10, 100)->max_tokens, 90) << "nobody asked for more";
  f.max_tokens = 90;
  EXPECT_EQ(SamplingOf(f, 10, 100)->max_tokens, 90);
  f.max_tokens = 91;
  const auto sampling = SamplingOf(f, 10, 100);
  ASSERT_FALSE(sampling.ok());
  EXPECT_EQ(
      sampling.status().message(),
      "--max-tokens 91 and 10 tokens of prompt exceed --max-model-len 100; there is room for 90");
  f.max_tokens.reset();
  f.min_tokens = 95;
  EXPECT_FALSE(SamplingOf(f, 10, 100).ok());
}

}  // namespace
}  // namespace weft::cli
