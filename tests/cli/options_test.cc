// Covers src/cli/plan_switches.cc
#include "cli/options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "cli/arguments.h"

namespace weft::cli {
namespace {

NullLog log;

TEST(ParseSize, KnowsDecimalAndBinaryUnits) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},          {"4096", 4096},  {"32k", 32'000},       {"32K", 32'768},
      {"2m", 2'000'000}, {"2M", 2 << 20}, {"1g", 1'000'000'000}, {"1G", 1 << 30}};
  for (const auto& [text, value] : cases) EXPECT_EQ(*ParseSize(text, "--x"), value) << text;
}

TEST(ParseSize, RefusesTheRestNamingTheFlag) {
  for (const char* text :
       {"", "x", "-1", "1.5", "4 k", "4kk", "k", "9223372036854775807k", "99999999999999999999"}) {
    const auto size = ParseSize(text, "--max-model-len");
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_TRUE(size.status().message().starts_with(fmt::format("--max-model-len '{}': ", text)))
        << size.status().message();
  }
}

TEST(ExecConfig, DefaultsAreAccepted) {
  const auto config = ExecConfigOf(ModelFlags(), &log);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->ranks, 1);
  EXPECT_EQ(config->positions_max, 0);
  EXPECT_EQ(config->kv_bytes, 0);
  EXPECT_TRUE(config->int8_activations);
  EXPECT_EQ(config->model_dtype, DType::kBF16);
}

// The launch line of vllm-ascend's page on Qwen3.6-35B-A3B, with speculation as its other pages
// write it.
TEST(ExecConfig, AnAscendLaunchLineIsTakenAsItIs) {
  const char* argv[] = {
      "weft",
      "-tp",
      "2",
      "--enable-expert-parallel",
      "--quantization",
      "ascend",
      "--max-num-seqs",
      "128",
      "--max-model-len",
      "262144",
      "--max-num-batched-tokens",
      "16384",
      "--trust-remote-code",
      "--gpu-memory-utilization",
      "0.9",
      "--async-scheduling",
      "--compilation-config",
      R"({"cudagraph_mode":"FULL_DECODE_ONLY","cudagraph_capture_sizes":[5,20,40]})",
      "--additional-config",
      R"({"enable_cpu_binding":true,"multistream_overlap_shared_expert":true})",
      "-sc",
      R"({"method":"qwen3_5_mtp","num_speculative_tokens":4})"};
  std::vector<std::string> arguments = Normalise(std::size(argv), argv);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  CLI::App app;
  ModelFlags f;
  AddModelFlags(app, &f);
  AddEngineFlags(app, &f);
  ASSERT_NO_THROW(app.parse(arguments));
  const auto config = ExecConfigOf(f, &log);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->ranks, 2);
  EXPECT_EQ(config->draft_tokens, 4);
  EXPECT_TRUE(config->draft_head);
  EXPECT_TRUE(config->compile.interleave);
  std::vector<std::string> idle;
  for (const auto& [flag, why] : f.idle) idle.push_back(flag);
  EXPECT_EQ(idle, (std::vector<std::string>{"--quantization", "--gpu-memory-utilization",
                                            "--trust-remote-code", "--async-scheduling"}));
}

TEST(ExecConfig, LanesGoByTheWordsOfEither) {
  ModelFlags f;
  f.schedule.upstream.additional_config = {R"({"multistream_overlap_shared_expert":false})"};
  EXPECT_FALSE(ExecConfigOf(f, &log)->compile.interleave);
  f.opt = {"interleave_lanes=on"};
  EXPECT_TRUE(ExecConfigOf(f, &log)->compile.interleave) << "--opt goes over it";
}

TEST(ExecConfig, PrefetchIsOffUnlessEitherAsks) {
  ModelFlags f;
  EXPECT_FALSE(ExecConfigOf(f, &log)->compile.prefetch_weights);
  f.schedule.upstream.additional_config = {R"({"weight_prefetch_config":{"enabled":true}})"};
  EXPECT_TRUE(ExecConfigOf(f, &log)->compile.prefetch_weights);
  f.opt = {"prefetch_weights=auto"};
  EXPECT_FALSE(ExecConfigOf(f, &log)->compile.prefetch_weights) << "--opt goes over it";
  f.opt = {"prefetch_weights=on"};
  EXPECT_TRUE(ExecConfigOf(f, &log)->compile.prefetch_weights);
  f.opt = {"prefetch=on"};
  EXPECT_NE(ExecConfigOf(f, &log).status().message().find("post_exchanges, prefetch_weights"),
            std::string::npos);
}

TEST(ExecConfig, FlagsArriveInIt) {
  ModelFlags f;
  f.tensor_parallel_size = 3;
  f.dtype = "float32";
  f.activation_dtype = "bf16";
  f.max_model_len = "2K";
  f.kv_cache_memory_bytes = "1G";
  f.max_num_batched_tokens = "512";
  f.enforce_eager = true;
  f.wait_timeout_s = 0.5;
  f.opt = {"fold_finish=off"};
  f.impl = {"matmul=ref"};
  f.isa = "avx2";
  const auto config = ExecConfigOf(f, &log);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->ranks, 3);
  EXPECT_EQ(config->model_dtype, DType::kF32);
  EXPECT_FALSE(config->int8_activations);
  EXPECT_EQ(config->positions_max, 2048);
  EXPECT_EQ(config->kv_bytes, 1 << 30);
  EXPECT_EQ(config->tokens_max, 512);
  EXPECT_TRUE(config->compile.eager);
  EXPECT_EQ(config->wait_timeout_ns, 500'000'000);
  EXPECT_EQ(config->compile.switches.at("fold_finish"), graph::Switch::kOff);
  EXPECT_EQ(config->impl.at("matmul"), "ref");
  EXPECT_EQ(config->isa_max, kernels::Isa::kAvx2);
}

TEST(ExecConfig, EveryBadValueIsAnErrorThatNamesItsFlag) {
  const std::pair<const char*, void (*)(ModelFlags&)> cases[] = {
      {"--tensor-parallel-size 0", [](ModelFlags& f) { f.tensor_parallel_size = 0; }},
      {"--tensor-parallel-size 65", [](ModelFlags& f) { f.tensor_parallel_size = 65; }},
      {"--threads -1", [](ModelFlags& f) { f.threads = -1; }},
      {"--dtype 'int4'", [](ModelFlags& f) { f.dtype = "int4"; }},
      {"--activation-dtype 'fp8'", [](ModelFlags& f) { f.activation_dtype = "fp8"; }},
      {"--max-num-batched-tokens 0", [](ModelFlags& f) { f.max_num_batched_tokens = "0"; }},
      {"--max-num-seqs 0", [](ModelFlags& f) { f.max_num_seqs = 0; }},
      {"--max-model-len 9999999999", [](ModelFlags& f) { f.max_model_len = "9999999999"; }},
      {"--kv-cache-memory-bytes 'much'", [](ModelFlags& f) { f.kv_cache_memory_bytes = "much"; }},
      {"--wait-timeout 0", [](ModelFlags& f) { f.wait_timeout_s = 0; }},
      {"--opt 'fold_finish'", [](ModelFlags& f) { f.opt = {"fold_finish"}; }},
      {"--opt 'fold_finish=maybe'", [](ModelFlags& f) { f.opt = {"fold_finish=maybe"}; }},
      {"--opt 'no_such=on'", [](ModelFlags& f) { f.opt = {"no_such=on"}; }},
      {"--impl 'matmul'", [](ModelFlags& f) { f.impl = {"matmul"}; }},
      {"--schedule 'fc9'", [](ModelFlags& f) { f.schedule.schedule = "fc9"; }},
      {"--isa 'sse'", [](ModelFlags& f) { f.isa = "sse"; }},
  };
  for (const auto& [begin, spoil] : cases) {
    ModelFlags f;
    spoil(f);
    const auto config = ExecConfigOf(f, &log);
    ASSERT_FALSE(config.ok()) << begin;
    EXPECT_TRUE(config.status().message().starts_with(begin)) << config.status().message();
  }
}

// What a log was told, level by level.
class Collected final : public LogSink {
 public:
  void Write(LogLevel level, std::string_view line) override { lines.emplace_back(level, line); }
  std::vector<std::pair<LogLevel, std::string>> lines;
};

TEST(ExecConfig, TheScheduleArrivesAndItsNoticesAreLogged) {
  ModelFlags f;
  f.tensor_parallel_size = 4;
  f.schedule.upstream.additional_config = {
      R"({"flashcomm2_parallel_size":2,"enable_flashcomm1":true})"};
  Collected told;
  const auto config = ExecConfigOf(f, &told);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->schedule.schedule, plan::Schedule::kFc1Fc2);
  EXPECT_EQ(config->schedule.otp, 2);
  ASSERT_EQ(told.lines.size(), 1u);
  EXPECT_EQ(told.lines[0].first, LogLevel::kWarning);
  EXPECT_NE(told.lines[0].second.find("--kv-transfer-config"), std::string::npos);
  f.tensor_parallel_size = 3;
  EXPECT_FALSE(ExecConfigOf(f, &told).ok());
}

TEST(ExecConfig, AWholeSharedExpertOnOneRankIsTold) {
  ModelFlags f;
  f.schedule.enable_shared_expert_dp = true;
  Collected told;
  EXPECT_FALSE(ExecConfigOf(f, &told)->whole_shared_expert);
  ASSERT_EQ(told.lines.size(), 1u);
  EXPECT_NE(told.lines[0].second.find("--enable-shared-expert-dp changes nothing: one rank"),
            std::string::npos)
      << told.lines[0].second;
  f.tensor_parallel_size = 2;
  EXPECT_TRUE(ExecConfigOf(f, &told)->whole_shared_expert);
  EXPECT_EQ(told.lines.size(), 1u);
}

TEST(ExecConfig, ThresholdsThatNobodyNamedFollowTheModel) {
  ModelFlags f;
  f.tensor_parallel_size = 2;
  f.schedule.schedule = "fc1";
  f.schedule.fc1_min_token_num = 64;
  io::ModelConfig dense, experts;
  experts.experts = 128;
  auto config = ExecConfigOf(f, &log);
  ASSERT_TRUE(config.ok()) << config.status().message();
  FitToModel(f, experts, &*config);
  EXPECT_EQ(config->schedule.fc1_min_tokens, 64);
  EXPECT_EQ(config->schedule.sp_min_tokens, 1);
  f.schedule.fc1_min_token_num.reset();
  FitToModel(f, experts, &*config);
  EXPECT_EQ(config->schedule.fc1_min_tokens, 1);
  FitToModel(f, dense, &*config);
  EXPECT_EQ(config->schedule.fc1_min_tokens, 1001);
}

TEST(ModelFlags, UpstreamsVariablesAreReadOnceAtTheStart) {
  setenv("VLLM_ASCEND_ENABLE_FLASHCOMM1", "1", 1);
  CLI::App app;
  ModelFlags flags;
  AddModelFlags(app, &flags);
  unsetenv("VLLM_ASCEND_ENABLE_FLASHCOMM1");
  flags.tensor_parallel_size = 2;
  const auto config = ExecConfigOf(flags, &log);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->schedule.schedule, plan::Schedule::kFc1);
}

TEST(ExecConfig, AProfileGivesTheCostTable) {
  const auto costs_of = [](const char* name, int ranks) -> Result<plan::CostTable> {
    ModelFlags flags;
    flags.profile = std::string(WEFT_SOURCE_DIR "/profiles/") + name;
    flags.tensor_parallel_size = ranks;
    WEFT_ASSIGN_OR_RETURN(const exec::ExecConfig config, ExecConfigOf(flags, &log));
    return config.costs;
  };
  EXPECT_EQ(ExecConfigOf(ModelFlags(), &log)->costs, exec::DefaultCosts());
  EXPECT_FALSE(costs_of("xeon-spr-2.json", 2)->exchanges.empty());
  EXPECT_TRUE(costs_of("epyc-zen3-2.json", 1)->exchanges.empty()) << "one rank exchanges nothing";
  const Status older = costs_of("epyc-zen3-2.json", 2).status();
  EXPECT_NE(older.message().find("epyc-zen3-2.json: it has no costs of exchanges"),
            std::string::npos)
      << older.message();
  EXPECT_NE(costs_of("none.json", 1).status().message().find("--profile "), std::string::npos);
}

TEST(EngineConfig, FlagsArriveInIt) {
  ModelFlags f;
  f.enable_prefix_caching = false;
  f.enable_chunked_prefill = false;
  f.long_prefill_token_threshold = 64;
  f.scheduling_policy = "priority";
  f.max_num_queued_reqs = 7;
  f.seed = 11;
  const auto config = EngineConfigOf(f, {2, 3});
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config->enable_prefix_caching);
  EXPECT_FALSE(config->enable_chunked_prefill);
  EXPECT_EQ(config->long_prefill_token_threshold, 64);
  EXPECT_EQ(config->scheduling_policy, "priority");
  EXPECT_EQ(config->queue_max, 7);
  EXPECT_EQ(config->seed, 11u);
  EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{2, 3}));
}

TEST(ModelFlags, TheFlagsOfVllmAreThere) {
  CLI::App app;
  ModelFlags flags;
  AddModelFlags(app, &flags);
  AddEngineFlags(app, &flags);
  for (const char* name : {"--model",
                           "--tokenizer",
                           "--revision",
                           "--dtype",
                           "--tensor-parallel-size",
                           "--max-model-len",
                           "--max-num-seqs",
                           "--max-num-batched-tokens",
                           "--block-size",
                           "--seed",
                           "--enforce-eager",
                           "--kv-cache-memory-bytes",
                           "--enable-prefix-caching",
                           "--no-enable-prefix-caching",
                           "--enable-chunked-prefill",
                           "--scheduling-policy",
                           "--long-prefill-token-threshold",
                           "--compilation-config",
                           "--additional-config",
                           "--kv-transfer-config"}) {
    EXPECT_NE(app.get_option_no_throw(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace weft::cli
