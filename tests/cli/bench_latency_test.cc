#include "cli/bench_latency.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "support/command_outcome.h"

namespace weft::cli {
namespace {

constexpr const char *kTiedModel = " --model " WEFT_TESTS_DIR "/models/data/llama_tied_4h2_bf16",
                     *kHybrid = " --model " WEFT_TESTS_DIR "/models/data/qwen35_moe_r2_4h2_bf16";

using Outcome = test::CommandOutcome;
Outcome RunLatency(const std::string& arguments, const char* model = kTiedModel) {
  CLI::App app;
  const Command run = AddBenchLatency(app);
  app.parse(arguments + model);
  return test::OutcomeOf(run);
}

TEST(BenchLatency, TellsEachBucketAsJson) {
  const Outcome o = RunLatency(
      "--json --threads 1 --prefill 7 --prompts 1,4 --batch 1,3 --depth 0,5 --tokens 3 --repeat 2 "
      "--max-model-len 64");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto json = ParseJson(o.out);
  ASSERT_TRUE(json.ok()) << json.status().message() << o.out;
  const Json::Array& rows = json->Find("rows")->as_array();
  ASSERT_EQ(rows.size(), 6u);
  const std::vector<std::pair<int64_t, int64_t>> shapes{{1, 7}, {4, 7}, {1, 1},
                                                        {1, 1}, {3, 1}, {3, 1}};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].Find("sequences")->as_int(), shapes[i].first);
    EXPECT_EQ(rows[i].Find("rows")->as_int(), shapes[i].second);
    EXPECT_EQ(rows[i].Find("ms")->as_array().size(), i < 2 ? 2u : 3u);
    const double median = rows[i].Find("median_ms")->as_double();
    EXPECT_GT(median, 0);
    EXPECT_NEAR(rows[i].Find("tokens_per_s")->as_double() * median,
                1000.0 * static_cast<double>(shapes[i].first * shapes[i].second), 1e-6);
    EXPECT_FALSE(rows[i].Find("trace")->Find("ops")->as_array().empty());
  }
  EXPECT_NE(json->Find("limits_after"), nullptr);
}

// A step that verifies k drafts has 1 + k rows of a sequence, all with logits; a model with a draft
// head drafts behind it.
TEST(BenchLatency, VerifiesAndDrafts) {
  for (const bool head : {true, false}) {
    const Outcome o = RunLatency(
        "--json --threads 1 --prefill 0 --batch 2 --depth 3 --drafts 1,3 --tokens 3 "
        "--max-model-len 128",
        head ? kHybrid : kTiedModel);
    ASSERT_EQ(o.code, 0) << o.err;
    const auto json = ParseJson(o.out);
    ASSERT_TRUE(json.ok()) << o.out;
    std::map<std::string, const Json*> rows;
    for (const Json& row : json->Find("rows")->as_array())
      rows[row.Find("bucket")->as_string()] = &row;
    ASSERT_EQ(rows.size(), head ? 5u : 3u);
    const auto bytes = [&](const char* name) {
      return rows.at(name)->Find("work")->Find("bytes")->as_double();
    };
    EXPECT_EQ(rows.at("verify:2x4")->Find("rows")->as_int(), 4);
    EXPECT_GE(bytes("verify:2x4"), bytes("decode:2"));
    if (!head) continue;
    EXPECT_GT(bytes("draft:2x3"), 2 * bytes("draft:2x1"))
        << "two more passes over the head's weights";
    EXPECT_LT(bytes("draft:2x1"), bytes("decode:2"));
    EXPECT_FALSE(rows.at("draft:2x3")->Find("trace")->Find("ops")->as_array().empty());
  }
}

TEST(BenchLatency, MoreRowsThanAStepHoldsAreAnError) {
  for (const char* flags : {"--batch 2 --drafts 4 --max-num-batched-tokens 8",
                            "--batch 9 --max-num-batched-tokens 8"}) {
    const Outcome o =
        RunLatency(std::string("--threads 1 --prefill 0 --tokens 1 --max-model-len 128 ") + flags);
    EXPECT_EQ(o.code, 1) << flags;
    EXPECT_NE(o.err.find("at most 8 tokens a step (--max-num-batched-tokens)"), std::string::npos)
        << o.err;
  }
}

TEST(BenchLatency, PrintsATableAndWhereTheTimeGoes) {
  const Outcome o =
      RunLatency("--threads 1 --prefill 0 --batch 2 --tokens 2 --by-op --max-model-len 64");
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* word :
       {"decode:2", "of limit", "matmul gate", "attention", "limits, before and after:"}) {
    EXPECT_NE(o.out.find(word), std::string::npos) << word << "\n" << o.out;
  }
  EXPECT_EQ(o.out.find("prefill:"), std::string::npos) << "0 asks for none";
}

TEST(BenchLatency, ATraceHasTheLastStepsOfEachBucket) {
  const std::string path =
      testing::TempDir() + "weft_latency_trace_" + std::to_string(getpid()) + ".json";
  const Outcome o = RunLatency(
      "--json --threads 1 --prefill 5 --batch 2 --tokens 1 --repeat 1 --max-model-len 64 --trace " +
      path);
  ASSERT_EQ(o.code, 0) << o.err;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  const auto json = ParseJson(text.str());
  ASSERT_TRUE(json.ok()) << json.status().message();
  std::map<std::string, int> plans;
  for (const Json& event : json->Find("traceEvents")->as_array()) {
    const Json* category = event.Find("cat");
    if (category != nullptr && category->as_string() == "plan")
      ++plans[event.Find("name")->as_string()];
  }
  EXPECT_EQ(plans, (std::map<std::string, int>{
                       {"body:5", 1}, {"head:1:greedy", 1}, {"body:2", 8}, {"head:2:greedy", 8}}));
}

TEST(BenchLatency, NamesTheFlagAndItsBound) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"--prefill 65 --max-model-len 64", {"--prefill 65", "64 positions", "--max-model-len"}},
           {"--prefill 0 --depth 60 --max-model-len 64", {"--depth 60", "64 positions"}},
           {"--prefill 0 --batch -1", {"--batch -1"}},
           {"--prefill 5 --prompts 0", {"--prompts 0"}},
           {"--prefill 50 --prompts 200 --max-model-len 64",
            {"--prefill 50 --prompts 200", "--max-num-batched-tokens"}},
           {"--trace /no/such/folder/x", {"--trace /no/such/folder/x: No such file"}},
           {"--reference", {"--reference"}},
           {"--profile /nowhere.json", {"/nowhere.json"}}}) {
    const Outcome o = RunLatency("--threads 1 " + arguments);
    EXPECT_EQ(o.code, 1) << arguments;
    for (const std::string& word : words)
      EXPECT_NE(o.err.find(word), std::string::npos) << word << "\n" << o.err;
  }
}

}  // namespace
}  // namespace weft::cli
