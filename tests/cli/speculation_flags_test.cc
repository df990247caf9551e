#include "cli/speculation_flags.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

using engine::SpeculationConfig;
using engine::SpeculationMethod;

SpeculationConfig Chosen(const std::string& json) {
  const auto choice = ChooseSpeculation({.config = {json}});
  EXPECT_TRUE(choice.ok()) << json << ": " << choice.status().message();
  return choice.ok() ? choice->config : SpeculationConfig();
}

std::string Refusal(const std::string& json) {
  return ChooseSpeculation({.config = {json}}).status().message();
}

TEST(SpeculationFlags, NothingAskedIsNothingChosen) {
  const auto choice = ChooseSpeculation({});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->config, SpeculationConfig());
}

TEST(SpeculationFlags, VllmsSpellings) {
  for (const char* method : {"mtp", "qwen3_5_mtp", "qwen3_next_mtp", "deepseek_mtp"}) {
    const SpeculationConfig c =
        Chosen(std::string(R"({"num_speculative_tokens":2,"method":")") + method + "\"}");
    EXPECT_EQ(c.method, SpeculationMethod::kMtp) << method;
    EXPECT_EQ(c.tokens, 2);
  }
  const SpeculationConfig ngram =
      Chosen(R"({"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3})");
  EXPECT_EQ(ngram.method, SpeculationMethod::kNgram);
  EXPECT_EQ(ngram.lookup_min, 3) << "one given, the other is the same";
  EXPECT_EQ(ngram.lookup_max, 3);
  EXPECT_EQ(Chosen(R"({"method":"ngram","num_speculative_tokens":4})").lookup_min, 5);
  const SpeculationConfig automatic = Chosen(R"({"method":"mtp","num_speculative_tokens":"auto"})");
  EXPECT_TRUE(automatic.automatic);
  EXPECT_EQ(automatic.tokens, 4);
  EXPECT_FALSE(automatic.drawn);
  EXPECT_TRUE(
      Chosen(R"({"method":"mtp","num_speculative_tokens":2,"draft_sample_method":"probabilistic"})")
          .drawn);
  const auto flags =
      ChooseSpeculation({.config = {R"({"method":"ngram","num_speculative_tokens":4})"},
                         .method = "mtp",
                         .tokens = 1});
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(flags->config.method, SpeculationMethod::kMtp);
  EXPECT_EQ(flags->config.tokens, 1);
}

TEST(SpeculationFlags, WhatChangesNothingIsToldAndWhatIsWrongRefused) {
  const auto idle = ChooseSpeculation(
      {.config = {R"({"method":"mtp","num_speculative_tokens":2,"enforce_eager":true})"}});
  ASSERT_TRUE(idle.ok());
  ASSERT_EQ(idle->notices.size(), 1u);
  EXPECT_EQ(idle->notices[0].text,
            "--speculative-config: enforce_eager: taken, without effect here");
  struct Row {
    const char *json, *part;
  };
  for (
      const Row& row : {
          Row{R"({"num_speculative_tokens":2})", "method is missing"},
          Row{R"({"method":"mtp"})", "num_speculative_tokens is missing"},
          Row{R"({"method":"mtp","num_speculative_tokens":0})", "num_speculative_tokens"},
          Row{R"({"method":"mtp","num_speculative_tokens":17})", "16"},
          Row{R"({"method":"mtp","num_speculative_tokens":"many"})", "num_speculative_tokens"},
          Row{R"({"method":"eagle3","num_speculative_tokens":2})", "method 'eagle3' is not built"},
          Row{R"({"method":"guess","num_speculative_tokens":2})", "method 'guess'"},
          Row{R"({"method":"mtp","num_speculative_token":2})",
              "did you mean 'num_speculative_tokens'?"},
          Row{R"({"method":"ngram","num_speculative_tokens":2,"prompt_lookup_min":4,"prompt_lookup_max":3})",
              "prompt_lookup_min 4"},
          Row{R"({"method":"mtp","num_speculative_tokens":2,"draft_sample_method":"gumbel"})",
              "greedy or probabilistic"},
          Row{R"({"method":"ngram","num_speculative_tokens":2,"draft_sample_method":"probabilistic"})",
              "is for method mtp"},
          Row{R"({"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"block"})",
              "is not built"},
          Row{R"({"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"synthetic"})",
              "needs synthetic_acceptance_rates"},
          Row{R"({"method":"mtp","num_speculative_tokens":2,"synthetic_acceptance_rates":[1,1]})",
              "needs \"rejection_sample_method\""},
          Row{R"({"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"synthetic","synthetic_acceptance_rates":[0.5,0.7]})",
              "never rise"},
          Row{R"({"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"synthetic","synthetic_acceptance_rates":[0.5]})",
              "1 synthetic_acceptance_rates"},
          Row{R"([])", "a JSON object wanted"},
      }) {
    EXPECT_NE(Refusal(row.json).find(row.part), std::string::npos)
        << row.json << ": " << Refusal(row.json);
  }
}

TEST(SpeculationFlags, SyntheticLengthIsTheMeanOfAcceptedAndOneMore) {
  const SpeculationConfig c = Chosen(
      R"({"method":"mtp","num_speculative_tokens":3,"rejection_sample_method":"synthetic","synthetic_acceptance_length":2.5})");
  ASSERT_EQ(c.synthetic.size(), 3u);
  double expected = 1, chain = 1;
  for (const double rate : c.synthetic) expected += chain *= rate;
  EXPECT_NEAR(expected, 2.5, 1e-9);
  EXPECT_EQ(
      Chosen(
          R"({"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"synthetic","synthetic_acceptance_rates":[0.8,0.4]})")
          .synthetic,
      (std::vector<double>{0.8, 0.5}));
}

}  // namespace
}  // namespace weft::cli
