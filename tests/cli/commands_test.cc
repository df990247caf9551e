// The commands as main() runs them, on a tiny checkpoint, with what they print.
// Covers src/cli/run.cc src/cli/session.cc src/cli/answer_json.cc src/cli/explain.cc src/cli/serve.cc
// Covers src/cli/commands.cc src/cli/load.cc src/cli/version.cc
#include "cli/commands.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/json.h"
#include "cli/machine_limits.h"
#include "cli/version.h"
#include "support/command_outcome.h"

namespace weft::cli {
namespace {

const std::string kModel = std::string(WEFT_TESTS_DIR) + "/models/data/llama_untied_9h3_f32";

using Outcome = test::CommandOutcome;

Outcome Do(Command (*add)(CLI::App&), std::vector<std::string> words) {
  CLI::App app("", "weft");
  const Command command = add(app);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return test::OutcomeOf(command);
}

Json RunJson(std::vector<std::string> words) {
  words.insert(words.begin(), {"--model", kModel, "--prompt-ids", "1,2,3,4", "--max-tokens", "5",
                               "--ignore-eos", "--json"});
  const Outcome outcome = Do(AddRun, std::move(words));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  auto json = ParseJson(outcome.out);
  EXPECT_TRUE(json.ok()) << outcome.out;
  return std::move(json).value();
}

TEST(Run, JsonHasEverythingThatTwoRunsAreComparedBy) {
  const Json json = RunJson({"--logprobs", "2"});
  EXPECT_EQ(json.Find("token_ids")->as_array().size(), 5u);
  EXPECT_EQ(json.Find("logits_hash")->as_array().size(), 5u);
  EXPECT_EQ(json.Find("finish_reason")->as_string(), "length");
  EXPECT_EQ(json.Find("schedule")->as_string(), "plain");
  EXPECT_TRUE(json.Find("text")->is_null()) << "there is no tokenizer to make a text";
  EXPECT_EQ(json.Find("fabric_bytes")->as_int(), 0) << "one rank has nobody to talk to";
  EXPECT_GT(json.Find("timings")->Find("time_to_first_token_ms")->as_double(), 0);
  EXPECT_GT(json.Find("timings")->Find("step_ms")->as_double(), 0);
  EXPECT_GT(json.Find("timings")->Find("host_us_per_step")->as_double(), 0);
  ASSERT_EQ(json.Find("logprobs")->as_array().size(), 5u);
  for (const Json& token : json.Find("logprobs")->as_array()) {
    EXPECT_EQ(token.Find("top")->as_array().size(), 2u);
    // The hex form has all bits of the float, the decimal one the same value.
    const float hex = std::strtof(token.Find("logprob_hex")->as_string().c_str(), nullptr);
    EXPECT_EQ(hex, static_cast<float>(token.Find("logprob")->as_double()));
  }
}

TEST(Run, TwoRanksGiveTheSameBitsAndTalk) {
  const Json one = RunJson({}), two = RunJson({"--tensor-parallel-size", "2"});
  EXPECT_EQ(DumpJson(*one.Find("token_ids")), DumpJson(*two.Find("token_ids")));
  EXPECT_EQ(DumpJson(*one.Find("logits_hash")), DumpJson(*two.Find("logits_hash")));
  EXPECT_GT(two.Find("fabric_bytes")->as_int(), 0);
  int64_t calls = 0;
  for (const auto& [kind, count] : two.Find("collectives")->as_object()) calls += count.as_int();
  EXPECT_GT(calls, 0);
}

// Promise P1 through the command line: whatever the schedule, the same bits.
TEST(Run, AScheduleChangesNoBit) {
  const Json plain = RunJson({});
  for (const char* name : {"sp", "fc1", "fc2", "fc1+fc2", "gather", "auto"}) {
    const Json json = RunJson({"--tensor-parallel-size", "2", "--schedule", name,
                               "--sp-min-token-num", "1", "--fc1-min-token-num", "1"});
    EXPECT_EQ(DumpJson(*json.Find("logits_hash")), DumpJson(*plain.Find("logits_hash"))) << name;
    EXPECT_TRUE(json.Find("schedule")->as_string().starts_with(name))
        << json.Find("schedule")->as_string();
  }
}

TEST(Run, ATraceIsWrittenAndItsBoundIsTold) {
  const std::string path =
      testing::TempDir() + "weft_run_trace_" + std::to_string(getpid()) + ".json";
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--model", kModel, "--prompt-ids", "1,2,3,4", "--max-tokens", "3", "--ignore-eos",
                 "--tensor-parallel-size", "2", "--threads", "2", "--trace", path});
    const Outcome outcome = Do(AddRun, std::move(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    auto trace = ParseJson(text.str());
    EXPECT_TRUE(trace.ok()) << trace.status().message();
    std::set<std::string> names;
    for (const Json& event : trace->Find("traceEvents")->as_array())
      names.insert(event.Find("name")->as_string());
    for (const char* name : {"process_name", "thread_name", "body:4", "attention"})
      EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_EQ(trace->Find("otherData")->Find("model")->as_string(), kModel);
    std::remove(path.c_str());
    return outcome;
  };
  const Outcome whole = run({});
  EXPECT_EQ(whole.err.find("--trace"), std::string::npos) << whole.err;
  EXPECT_EQ(run({"--json"}).out.find("trace"), std::string::npos);
  const Outcome cut = run({"--trace-events", "20"});
  EXPECT_NE(cut.err.find("found no room behind the first 20 of each worker (--trace-events)"),
            std::string::npos)
      << cut.err;
}

TEST(Run, WithoutATokenizerTheIdsAreTheAnswer) {
  const Outcome outcome = Do(
      AddRun, {"--model", kModel, "--prompt-ids", "1,2,3,4", "--max-tokens", "3", "--ignore-eos"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), ','), 2) << outcome.out;
  EXPECT_NE(outcome.err.find("4 prompt tokens"), std::string::npos) << outcome.err;
}

TEST(Run, ErrorsAreOneLineAndExitOne) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--prompt", "x"}, "weft run: --model is empty"},
      {{"--model", "/no/such/file.gguf", "--prompt", "x"}, "/no/such/file.gguf"},
      {{"--model", kModel, "--prompt", "x"}, "has no tokenizer; give --prompt-ids or --tokenizer"},
      {{"--model", kModel, "--prompt-ids", "1,99999999"}, "prompt[1] is 99999999"},
      {{"--model", kModel, "--prompt-ids", "1", "--stop", "x"}, "--stop: "},
      {{"--model", kModel, "--prompt-ids", "1", "--max-tokens", "2000000"},
       "exceed --max-model-len"},
      {{"--model", kModel, "--prompt-ids", "1", "--block-size", "7"}, "--block-size 7"},
      {{"--model", kModel, "--prompt-ids", "1", "--impl", "matmul=nothing"},
       "--impl matmul=nothing"},
      {{"--model", kModel, "--prompt-ids", "1", "--schedule", "fc2"}, "--tensor-parallel-size 1"},
      {{"--model", kModel, "--prompt-ids", "1", "--additional-config", "{\"refreshh\":1}"},
       "did you mean 'refresh'?"},
      {{"--model", kModel, "--prompt-ids", "1", "--scheduling-policy", "lifo"},
       "--scheduling-policy"},
  };
  for (const auto& [words, text] : cases) {
    const Outcome outcome = Do(AddRun, words);
    EXPECT_EQ(outcome.code, 1) << text;
    EXPECT_EQ(outcome.out, "") << text;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("weft run: "), std::string::npos) << outcome.err;
  }
}

TEST(Explain, PrintsThePlanOfABucket) {
  const Outcome outcome = Do(AddExplain, {"--model", kModel, "--bucket", "decode:4"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text : {"plan llama.body", "matmul", "attention", "fingerprint "}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(outcome.out, Do(AddExplain, {"--model", kModel, "--bucket", "decode:4"}).out);
  const Outcome ranks =
      Do(AddExplain, {"--model", kModel, "--bucket", "decode:4", "--tensor-parallel-size", "3"});
  EXPECT_NE(ranks.out.find("all_reduce"), std::string::npos) << ranks.err;
}

TEST(Explain, AProfileDecidesBetweenTheMethodsOfAnExchange) {
  const std::string path =
      testing::TempDir() + "weft_profile_" + std::to_string(getpid()) + ".json";
  const auto explain = [&](double two_shot) {
    MachineLimits limits;
    for (const auto& [method, ns] :
         std::map<std::string, double>{{"direct", 500}, {"two_shot", two_shot}}) {
      limits.limits.push_back({"all_reduce_phase", 2, 0, ns, ns, "ns", method});
      limits.limits.push_back({"all_reduce_kib", 2, 0, 10, 10, "ns/KiB", method});
    }
    std::ofstream(path) << DumpJson(ToJson(limits));
    const Outcome outcome = Do(AddExplain, {"--model", kModel, "--bucket", "decode:4",
                                            "--tensor-parallel-size", "2", "--profile", path});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::remove(path.c_str());
    return outcome.out;
  };
  const std::string cheap = explain(1), dear = explain(5000);
  EXPECT_NE(cheap.find("all_reduce:two_shot"), std::string::npos) << cheap;
  EXPECT_NE(cheap.find("ns for 4 rows, two_shot takes"), std::string::npos) << cheap;
  EXPECT_NE(dear.find("ns for 4 rows, direct takes"), std::string::npos) << dear;
}

TEST(Explain, PrintsTheTableOfOpsWithoutAModel) {
  const Outcome outcome = Do(AddExplain, {"--ops"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("# Ops\n")) << outcome.out;
  EXPECT_NE(outcome.out.find("| `all_reduce` |"), std::string::npos);
}

TEST(Explain, PrintsTheSchedulesAndWithAModelItsBuckets) {
  const Outcome table = Do(AddExplain, {"--schedules"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_TRUE(table.out.starts_with("Schedules (--schedule)\n")) << table.out;
  EXPECT_EQ(table.out.find("Buckets of"), std::string::npos);
  const Outcome buckets =
      Do(AddExplain, {"--schedules", "--model", kModel, "--tensor-parallel-size", "2", "--schedule",
                      "sp", "--sp-min-token-num", "64"});
  EXPECT_EQ(buckets.code, 0) << buckets.err;
  EXPECT_TRUE(buckets.out.starts_with(table.out));
  EXPECT_NE(buckets.out.find("rows 63 < 64 (--sp-min-token-num)\n"), std::string::npos)
      << buckets.out;
  const Outcome wrong = Do(AddExplain, {"--schedules", "--model", kModel, "--schedule", "fc2"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.err.find("--tensor-parallel-size 1"), std::string::npos) << wrong.err;
}

TEST(Explain, ADraftHeadHasPlansOfItsOwn) {
  const std::string hybrid = WEFT_TESTS_DIR "/models/data/qwen35_moe_r2_4h2_bf16";
  for (const char* bucket : {"draft:8", "next_draft:2", "draft_head:2"}) {
    const Outcome outcome = Do(AddExplain, {"--model", hybrid, "--bucket", bucket});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.find("concat") != std::string::npos,
              std::string_view(bucket) != "draft_head:2")
        << outcome.out;
  }
  const Outcome none = Do(AddExplain, {"--model", kModel, "--bucket", "draft:8"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("there is no draft head (mtp)"), std::string::npos) << none.err;
}

TEST(Explain, ABadBucketIsNamedWithWhatThereIs) {
  for (const char* bucket : {"decode", "decode:0", "decode:x", "verify:4", "decode:999999", ""}) {
    const Outcome outcome = Do(AddExplain, {"--model", kModel, "--bucket", bucket});
    EXPECT_EQ(outcome.code, 1) << bucket;
    EXPECT_NE(outcome.err.find("--bucket"), std::string::npos) << outcome.err;
  }
}

TEST(Serve, AModelWithoutTokenizerIsRefused) {
  const Outcome outcome = Do(AddServe, {"--model", kModel, "--port", "0"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("has no tokenizer; --tokenizer names one"), std::string::npos)
      << outcome.err;
}

TEST(Version, SaysWhichNumbersToExpect) {
  EXPECT_TRUE(VersionLine().starts_with("weft 0.1.0 (numerics "));
}

}  // namespace
}  // namespace weft::cli
