#include "cli/bench_waterfall.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "base/json.h"
#include "cli/plan_switches.h"
#include "support/command_outcome.h"

namespace weft::cli {
namespace {

test::CommandOutcome RunWaterfall(const std::string& arguments) {
  CLI::App app;
  const Command run = AddBenchWaterfall(app);
  app.parse(arguments +
            " --model " WEFT_TESTS_DIR
            "/models/data/qwen35_moe_r2_4h2_bf16 --input-len 6 --output-len 5 --rounds 2");
  return test::OutcomeOf(run);
}

TEST(BenchWaterfall, EachSwitchIsMeasuredAmongAllAndAlone) {
  const std::string svg = ::testing::TempDir() + "waterfall.svg";
  const auto o = RunWaterfall(
      "--tensor-parallel-size 2 --threads 2 --concurrency 1,3 --spec-method mtp --spec-tokens 2 "
      "--json --svg " +
      svg);
  ASSERT_EQ(o.code, 0) << o.err;
  const auto json = ParseJson(o.out);
  ASSERT_TRUE(json.ok()) << o.out;
  const Json::Array& waterfalls = json->Find("waterfalls")->as_array();
  ASSERT_EQ(waterfalls.size(), 2u);
  for (const Json& w : waterfalls) {
    std::vector<std::string> names;
    for (const Json& row : w.Find("switches")->as_array()) {
      names.push_back(row.Find("switch")->as_string());
      for (const char* how : {"among_all", "alone"}) {
        EXPECT_EQ(row.Find(how)->Find("with")->as_array().size(), 2u) << names.back();
        EXPECT_EQ(row.Find(how)->Find("without")->as_array().size(), 2u) << names.back();
      }
      // A pass that is listed changes a plan.
      const auto of_plan = PlanSwitches();
      const bool pass = names.back() != "speculation" &&
                        std::none_of(of_plan.begin(), of_plan.end(),
                                     [&](const PlanSwitch& s) { return s.name == names.back(); });
      EXPECT_EQ(row.Find("rewrites")->as_int() > 0, pass) << names.back();
    }
    for (const char* name :
         {"shard_argmax", "fuse_add_rms_norm", "fuse_matmul_all_reduce_norm", "chain_steps",
          "interleave_lanes", "prefetch_weights", "speculation"}) {
      EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
    }
  }
  std::ifstream file(svg);
  const std::string picture((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  EXPECT_NE(picture.find("speculation"), std::string::npos);
}

TEST(BenchWaterfall, SomeSwitchesAsATable) {
  const auto o = RunWaterfall("--threads 1 --concurrency 1 --switches fold_finish");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("fold_finish"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("chain_steps"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("all that are on by default"), std::string::npos) << o.out;
}

TEST(BenchWaterfall, WrongFlagsSayWhatThereIs) {
  EXPECT_NE(RunWaterfall("--switches fuse_nothing")
                .err.find("--switches fuse_nothing: for this model and deployment there are"),
            std::string::npos);
  EXPECT_NE(
      RunWaterfall("--concurrency 1000").err.find("--concurrency 1000: 1 to 128 (--max-num-seqs)"),
      std::string::npos);
  EXPECT_NE(RunWaterfall("--dataset-path /nowhere").err.find("has no tokenizer"),
            std::string::npos);
  EXPECT_NE(RunWaterfall("--reference").err.find("--reference"), std::string::npos);
}

}  // namespace
}  // namespace weft::cli
