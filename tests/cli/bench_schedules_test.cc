// Covers src/cli/stepper.h
#include "cli/bench_schedules.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "support/command_outcome.h"

namespace weft::cli {
namespace {

constexpr const char* kFullHeadsModel =
    " --model " WEFT_TESTS_DIR "/models/data/llama_8h8_llama3_bf16";

using Outcome = test::CommandOutcome;
Outcome RunSchedules(const std::string& arguments) {
  CLI::App app;
  const Command run = AddBenchSchedules(app);
  app.parse(arguments + kFullHeadsModel);
  return test::OutcomeOf(run);
}

TEST(BenchSchedules, TellsBytesAndTimesOfEachScheduleAsJson) {
  const Outcome o = RunSchedules(
      "--tensor-parallel-size 4 --threads 4 --prefill 8,7 --depth 5 --repeat 2 --json --impl "
      "all_reduce=direct");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto json = ParseJson(o.out);
  ASSERT_TRUE(json.ok()) << json.status().message() << o.out;
  const std::vector<std::string> expected{"plain",         "sp",        "fc1",
                                          "fc2 otp=1",     "fc2 otp=2", "fc1+fc2 otp=1",
                                          "fc1+fc2 otp=2", "gather",    "auto"};
  const Json::Array& steps = json->Find("steps")->as_array();
  ASSERT_EQ(steps.size(), 3u);
  for (size_t s = 0; s < steps.size(); ++s) {
    EXPECT_EQ(steps[s].Find("step")->as_string(),
              (std::vector<std::string>{"prefill:8", "prefill:7", "decode:1@5"})[s]);
    std::vector<std::string> names;
    std::map<std::string, int64_t> layer;
    for (const Json& row : steps[s].Find("schedules")->as_array()) {
      const std::string name = row.Find("schedule")->as_string();
      names.push_back(name);
      const Json& bytes = *row.Find("bytes");
      EXPECT_GT(bytes.Find("counted")->as_int(), 0) << name;
      EXPECT_EQ(bytes.Find("counted")->as_int(), bytes.Find("planned")->as_int()) << name;
      layer[name] = bytes.Find("layer_planned")->as_int();
      // Four ranks divide 8 rows; there the formula is exact.
      ASSERT_EQ(bytes.Find("layer_formula")->is_null(), s != 0) << name;
      if (s == 0) {
        EXPECT_EQ(bytes.Find("layer_formula")->as_double(), static_cast<double>(layer[name]))
            << name;
      }
      EXPECT_EQ(row.Find("ms")->as_array().size(), 2u);
      EXPECT_EQ(row.Find("plain_ms")->as_array().size(), 2u);
      EXPECT_GT(row.Find("tokens_per_s")->as_double(), 0);
      EXPECT_GT(row.Find("compute_us")->as_double(), 0);
      EXPECT_GT(row.Find("exchange_us")->as_double(), 0);
      EXPECT_EQ(row.Find("note")->as_string().empty(), name != "auto")
          << name << ": " << row.Find("note")->as_string();
    }
    EXPECT_EQ(names, expected);
    EXPECT_LT(layer["sp"], layer["plain"]);
    EXPECT_LT(layer["fc2 otp=2"], layer["plain"]);
    EXPECT_NE(layer["fc2 otp=1"], layer["fc2 otp=2"]);
  }
}

TEST(BenchSchedules, AScheduleThatIsNotTakenSaysWhy) {
  const Outcome o = RunSchedules(
      "--tensor-parallel-size 2 --threads 2 --prefill 8 --depth -1 --repeat 1 --schedules sp,fc1 "
      "--sp-min-token-num 9");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("runs plain: rows 8 < 9 (--sp-min-token-num)"), std::string::npos) << o.out;
  for (const char* word : {"prefill:8", "time / plain", "\nfc1 ", "winner"})
    EXPECT_NE(o.out.find(word), std::string::npos) << word << o.out;
  EXPECT_EQ(o.out.find("decode"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("gather"), std::string::npos) << o.out;
}

TEST(BenchSchedules, WritesATraceOfEach) {
  const std::string folder = testing::TempDir() + "weft_traces_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const Outcome o = RunSchedules(
      "--tensor-parallel-size 4 --threads 4 --prefill 8 --depth -1 --repeat 1 --schedules "
      "plain,fc1+fc2 --traces " +
      folder);
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* name : {"plain", "fc1_fc2_1", "fc1_fc2_2"}) {
    std::stringstream text;
    text << std::ifstream(folder + "/" + name + ".json").rdbuf();
    const auto json = ParseJson(text.str());
    ASSERT_TRUE(json.ok()) << name << ": " << json.status().message();
    EXPECT_GT(json->Find("traceEvents")->as_array().size(), 100u);
  }
  std::filesystem::remove_all(folder);
}

TEST(BenchSchedules, NamesTheFlagAndItsBound) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"", {"--tensor-parallel-size 1", "2 ranks"}},
           {"--tensor-parallel-size 2 --schedule fc1", {"--schedule fc1", "--schedules"}},
           {"--tensor-parallel-size 2 --schedules fc3",
            {"--schedules fc3", "plain, sp, fc1, fc2 otp=1"}},
           {"--tensor-parallel-size 2 --prefill 4096",
            {"--prefill 4096", "2048", "--max-num-batched-tokens"}},
           {"--tensor-parallel-size 2 --prefill 8 --depth 64 --max-model-len 64",
            {"65 positions", "64 (--max-model-len)"}},
           {"--tensor-parallel-size 2 --prefill 0 --depth -1", {"nothing to measure"}},
           {"--tensor-parallel-size 2 --traces /no/such/folder", {"--traces /no/such/folder"}},
           {"--tensor-parallel-size 2 --reference", {"--reference"}}}) {
    const Outcome o = RunSchedules("--threads 2 " + arguments);
    EXPECT_EQ(o.code, 1) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
    for (const std::string& word : words)
      EXPECT_NE(o.err.find(word), std::string::npos) << word << "\n" << o.err;
  }
}

}  // namespace
}  // namespace weft::cli
