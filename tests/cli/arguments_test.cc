// Covers src/cli/help.cc
#include "cli/arguments.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/help.h"

namespace weft::cli {
namespace {

// A root with two commands, as main() makes it.
class ArgumentsTest : public testing::Test {
 protected:
  ArgumentsTest() {
    app_.formatter(MakeHelpFormatter());
    app_.require_subcommand(1);
    run_ = app_.add_subcommand("run", "answers");
    run_->add_option("model,--model", model_, "which");
    run_->add_option("--max-tokens", max_tokens_, "of the answer")
        ->type_name("N")
        ->check(Between(1, 256))
        ->capture_default_str();
    run_->add_option("--top-p", top_p_, "")->check(Above(0, 1));
    run_->add_option("--threads", threads_, "");
    run_->add_option("--prompt", prompt_, "")->check(NotEmpty());
    run_->add_flag("--cache,!--no-cache", cache_, "keep [on]");
    app_.add_subcommand("serve", "serves");
  }
  // What stderr would say; "" if all is well.
  std::string Parse(std::vector<std::string> words) {
    if (std::string wrong = CheckCommand(app_, words); !wrong.empty()) return wrong;
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return Explain(app_, error);
    }
    return "";
  }

  CLI::App app_{"what it is", "weft"};
  CLI::App* run_ = nullptr;
  std::string model_, prompt_;
  int max_tokens_ = 16, threads_ = 0;
  float top_p_ = 1;
  bool cache_ = true;
};

std::vector<std::string> Normal(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "weft");
  return Normalise(static_cast<int>(argv.size()), argv.data());
}

using Words = std::vector<std::string>;

TEST(Normalise, UnderscoresInFlagNamesAreDashes) {
  EXPECT_EQ(Normal({"run", "--max_model_len", "4k"}), (Words{"run", "--max-model-len", "4k"}));
  EXPECT_EQ(Normal({"--served_model_name=a_b"}), (Words{"--served-model-name=a_b"}));
}

TEST(Normalise, ValuesKeepTheirUnderscores) {
  EXPECT_EQ(Normal({"--prompt", "a_b", "org/my_model", "-x_y"}),
            (Words{"--prompt", "a_b", "org/my_model", "-x_y"}));
  EXPECT_EQ(Normal({"--", "--a_b"}), (Words{"--", "--a_b"}));
}

TEST(Normalise, TpIsSpelledOut) {
  for (const char* tp : {"-tp", "--tp", "--tensor_parallel_size"}) {
    EXPECT_EQ(Normal({tp, "2"}), (Words{"--tensor-parallel-size", "2"})) << tp;
  }
  EXPECT_EQ(Normal({"-tp=2"}), (Words{"--tensor-parallel-size=2"}));
}

TEST(Normalise, DotsInAJsonOptionAreJson) {
  struct Row {
    std::vector<const char*> argv;
    Words words;
  };
  const std::string compilation = "--compilation-config", additional = "--additional-config";
  const std::string sp = R"({"pass_config":{"enable_sp":true}})";
  const Row rows[] = {
      {{"--compilation-config.pass_config.enable_sp", "true"}, {compilation, sp}},
      {{"--compilation_config.pass_config.enable_sp=True"}, {compilation, sp}},
      {{"-cc.pass_config.enable_sp=true", "run"}, {compilation, sp, "run"}},
      {{"-O.mode", "3"}, {compilation, R"({"mode":3})"}},
      {{"-cc", "{\"mode\":3}"}, {compilation, R"({"mode":3})"}},
      {{"--additional-config.layer_sharding+", "o_proj,q_b_proj"},
       {additional, R"({"layer_sharding":["o_proj","q_b_proj"]})"}},
      {{"--additional-config.layer_sharding", R"(["o_proj"])"},
       {additional, R"({"layer_sharding":["o_proj"]})"}},
      {{"--kv-transfer-config.kv_role", "kv_producer"},
       {"--kv-transfer-config", R"({"kv_role":"kv_producer"})"}},
      {{"--kv-transfer-config.kv_role"}, {"--kv-transfer-config"}},
      {{"--model.name", "x_y"}, {"--model.name", "x_y"}},
      {{"--prompt", "--additional-config is a. flag"},
       {"--prompt", "--additional-config is a. flag"}},
      {{"--", "--additional-config.a_b", "1"}, {"--", "--additional-config.a_b", "1"}},
  };
  for (const Row& row : rows) EXPECT_EQ(Normal(row.argv), row.words) << row.argv[0];
}

TEST(Nearest, FindsSwappedMissingAndWrongLettersButNoOtherWords) {
  const Words known = {"run", "serve", "explain", "bench"};
  EXPECT_EQ(Nearest("rnu", known), "run");
  EXPECT_EQ(Nearest("sevre", known), "serve");
  EXPECT_EQ(Nearest("explan", known), "explain");
  EXPECT_EQ(Nearest("train", known), "");
  EXPECT_EQ(Nearest("", known), "");
}

TEST_F(ArgumentsTest, GoodWordsAreTaken) {
  EXPECT_EQ(Parse({"run", "m.gguf", "--max-tokens", "7", "--top-p=0.5", "--no-cache"}), "");
  EXPECT_EQ(model_, "m.gguf");
  EXPECT_EQ(max_tokens_, 7);
  EXPECT_FALSE(cache_);
}

TEST_F(ArgumentsTest, AnUnknownFlagIsAnErrorWithTheNearestName) {
  EXPECT_EQ(Parse({"run", "--max-tokns", "3"}),
            "weft run: unknown flag --max-tokns; did you mean --max-tokens?");
  EXPECT_EQ(Parse({"run", "--max-token=3"}),
            "weft run: unknown flag --max-token; did you mean --max-tokens?");
  EXPECT_EQ(Parse({"run", "--gpu-memory-utilization", "1"}),
            "weft run: unknown flag --gpu-memory-utilization; --help lists them");
}

TEST_F(ArgumentsTest, AnUnknownCommandIsAnErrorWithTheNearestName) {
  EXPECT_EQ(Parse({"rnu"}), "weft: unknown command 'rnu'; did you mean run?");
  EXPECT_EQ(Parse({"train"}), "weft: unknown command 'train'; there are run, serve");
  EXPECT_EQ(Parse({"--model", "x"}),
            "weft: --model stands before the command; say weft COMMAND --model, with a COMMAND of "
            "run, serve");
}

TEST_F(ArgumentsTest, AValueOutOfItsBoundNamesFlagValueAndBound) {
  EXPECT_EQ(Parse({"run", "--max-tokens", "0"}), "weft run: --max-tokens 0 must be 1 to 256");
  EXPECT_EQ(Parse({"run", "--max-tokens", "x"}), "weft run: --max-tokens 'x' is no number");
  EXPECT_EQ(Parse({"run", "--top-p", "0"}), "weft run: --top-p 0 must be above 0 and at most 1");
  EXPECT_EQ(Parse({"run", "--top-p", "nan"}),
            "weft run: --top-p nan must be above 0 and at most 1");
  EXPECT_EQ(Parse({"run", "--threads", "many"}),
            "weft run: --threads 'many' is no number that it could take");
  EXPECT_EQ(Parse({"run", "--prompt", ""}), "weft run: --prompt is empty");
}

TEST_F(ArgumentsTest, MissingAndSurplusWordsAreNamed) {
  EXPECT_EQ(Parse({"run", "--model"}), "weft run: --model needs one value");
  EXPECT_EQ(Parse({"run", "m", "n"}),
            "weft run: 'n' is one argument too many; a text with spaces needs quotes");
}

TEST_F(ArgumentsTest, HelpStandsInColumns) {
  const std::string help = run_->help();
  EXPECT_NE(help.find("usage: weft run [MODEL] [flags]\n"), std::string::npos) << help;
  EXPECT_NE(help.find("  --max-tokens N                    of the answer [16]\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("  --[no-]cache                      keep [on]\n"), std::string::npos)
      << help;
  EXPECT_EQ(help.find("\n\n\n"), std::string::npos) << help;
  EXPECT_NE(app_.help().find("  serve     serves\n"), std::string::npos) << app_.help();
}

}  // namespace
}  // namespace weft::cli
