#include "cli/upstream_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace weft::cli {
namespace {

using testing::HasSubstr;

UpstreamConfig Read(const UpstreamWords& words) {
  Result<UpstreamConfig> config = ReadUpstream(words);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? std::move(config).value() : UpstreamConfig();
}

TEST(ReadUpstream, NobodyAskedForAnything) {
  for (const char* nothing : {"{}", R"({"pass_config":{}})", R"({"pass_config":null})"}) {
    const UpstreamConfig c = Read({.compilation_config = {nothing}});
    EXPECT_FALSE(c.sequence_parallel || c.sp_min_token_num || c.flashcomm1 ||
                 c.flashcomm2_parallel_size || c.kv_transfer);
    EXPECT_TRUE(c.matmul_all_reduce.empty() && c.layer_sharding.empty() && c.notices.empty())
        << nothing;
  }
}

TEST(ReadUpstream, EveryWordThatCountsArrivesWithItsName) {
  const UpstreamConfig c = Read(
      {.compilation_config = {R"({"pass_config":{"enable_sp":true,"sp_min_token_num":10}})"},
       .additional_config =
           {R"({"enable_flashcomm1":true,"enable_flashcomm2_parallel_size":2,"flashcomm2_parallel_size":2,
                                 "layer_sharding":["o_proj"],"enable_matmul_allreduce":true,
                                 "finegrained_tp_config":{"oproj_tensor_parallel_size":4}})"},
       .kv_transfer_config = {R"({"kv_connector":"X","kv_role":"kv_producer"})"}});
  EXPECT_TRUE(c.sequence_parallel->value);
  EXPECT_EQ(c.sequence_parallel->by, "--compilation-config pass_config enable_sp");
  EXPECT_EQ(c.sp_min_token_num->value, 10);
  EXPECT_TRUE(c.flashcomm1->value);
  EXPECT_EQ(c.flashcomm1->by, "--additional-config enable_flashcomm1");
  EXPECT_EQ(c.flashcomm2_parallel_size->value, 2);
  EXPECT_EQ(c.layer_sharding, std::vector<std::string>{"o_proj"});
  ASSERT_EQ(c.matmul_all_reduce.size(), 1u);
  EXPECT_EQ(c.matmul_all_reduce[0].by, "--additional-config enable_matmul_allreduce");
  EXPECT_EQ(c.oproj_tensor_parallel_size->value, 4);
  EXPECT_TRUE(c.kv_transfer);
  EXPECT_EQ(c.kv_role, "kv_producer");
}

TEST(ReadUpstream, TheLaterOptionGoesOverTheEarlierKeyByKey) {
  const UpstreamConfig c =
      Read({.additional_config = {R"({"enable_flashcomm1":true,"flashcomm2_parallel_size":2})",
                                  R"({"flashcomm2_parallel_size":4})"}});
  EXPECT_TRUE(c.flashcomm1->value);
  EXPECT_EQ(c.flashcomm2_parallel_size->value, 4);
}

TEST(ReadUpstream, EitherNameOfFlashComm2sSizeWillDo) {
  for (const char* name : {"enable_flashcomm2_parallel_size", "flashcomm2_parallel_size"}) {
    EXPECT_EQ(Read({.additional_config = {fmt::format(R"({{"{}":2}})", name)}})
                  .flashcomm2_parallel_size->value,
              2)
        << name;
  }
}

TEST(ReadUpstream, PassesThatVllmBuildsOnSpTurnItOn) {
  for (const char* name :
       {"enable_sp", "enable_sequence_parallelism", "fuse_gemm_comms", "enable_async_tp"}) {
    const UpstreamConfig on =
        Read({.compilation_config = {fmt::format(R"({{"pass_config":{{"{}":true}}}})", name)}});
    EXPECT_TRUE(on.sequence_parallel && on.sequence_parallel->value) << name;
    const UpstreamConfig off =
        Read({.compilation_config = {fmt::format(R"({{"pass_config":{{"{}":false}}}})", name)}});
    EXPECT_FALSE(off.sequence_parallel && off.sequence_parallel->value) << name;
  }
}

// Row 35 of the acceptance facts (spec communication 7): the variables alone, then under options.
TEST(ReadUpstream, Row35AnOptionGoesOverAVariable) {
  const std::map<std::string, std::string, std::less<>> environment = {
      {"VLLM_ASCEND_ENABLE_FLASHCOMM1", "1"},
      {"VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", "2"},
      {"VLLM_ASCEND_ENABLE_FUSED_MC2", "2"}};
  const UpstreamConfig alone = Read({.environment = environment});
  EXPECT_TRUE(alone.flashcomm1->value);
  EXPECT_EQ(alone.flashcomm2_parallel_size->value, 2);

  const UpstreamConfig under = Read(
      {.additional_config =
           {R"({"enable_flashcomm1":false,"enable_flashcomm2_parallel_size":0,"enable_fused_mc2":0})"},
       .environment = environment});
  EXPECT_FALSE(under.flashcomm1->value);
  EXPECT_EQ(under.flashcomm2_parallel_size->value, 0);
  int told = 0;
  for (const Notice& n : under.notices)
    told += n.text.find("gives way to --additional-config") != std::string::npos ? 1 : 0;
  EXPECT_EQ(told, 2);

  const UpstreamConfig zero = Read({.additional_config = {R"({"enable_flashcomm1":true})"},
                                    .environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", "0"}}});
  EXPECT_TRUE(zero.flashcomm1->value);
}

TEST(ReadUpstream, FusedMc2SaysWhatMovesRowsHere) {
  for (const char* level : {"1", "2"}) {
    const UpstreamConfig c = Read({.environment = {{"VLLM_ASCEND_ENABLE_FUSED_MC2", level}}});
    ASSERT_EQ(c.notices.size(), 1u);
    EXPECT_NE(c.notices[0].text.find("exchange_experts"), std::string::npos) << c.notices[0].text;
    EXPECT_NE(c.notices[0].text.find("no row is dropped"), std::string::npos);
  }
  EXPECT_TRUE(Read({.environment = {{"VLLM_ASCEND_ENABLE_FUSED_MC2", "0"}}}).notices.empty());
  EXPECT_FALSE(ReadUpstream({.environment = {{"VLLM_ASCEND_ENABLE_FUSED_MC2", "3"}}}).ok());
}

TEST(ReadUpstream, WeightPrefetchGoesByOptionThenVariable) {
  const std::map<std::string, std::string, std::less<>> environment = {
      {"VLLM_ASCEND_ATTN_WEIGHT_PREFETCH", "1"}};
  EXPECT_TRUE(Read({.environment = environment}).prefetch_weights->value);
  EXPECT_FALSE(Read({}).prefetch_weights);
  const UpstreamConfig off =
      Read({.additional_config = {R"({"weight_prefetch_config":{"enabled":false}})"},
            .environment = environment});
  EXPECT_FALSE(off.prefetch_weights->value);
  ASSERT_EQ(off.notices.size(), 1u);
  EXPECT_NE(off.notices[0].text.find("gives way"), std::string::npos);
  // Their ratios are of weights, ours is half of the second-level cache.
  const UpstreamConfig ratio = Read(
      {.additional_config = {
           R"({"weight_prefetch_config":{"enabled":true,"prefetch_ratio":{"attn":{"qkv":1.0}}}})"}});
  EXPECT_TRUE(ratio.prefetch_weights->value);
  ASSERT_EQ(ratio.notices.size(), 1u);
  EXPECT_NE(ratio.notices[0].text.find("weight_prefetch_config.prefetch_ratio"), std::string::npos)
      << ratio.notices[0].text;
  EXPECT_FALSE(ReadUpstream({.additional_config = {R"({"weight_prefetch_config":true})"}}).ok());
  EXPECT_FALSE(ReadUpstream({.environment = {{"VLLM_ASCEND_ATTN_WEIGHT_PREFETCH", "yes"}}}).ok());
}

TEST(ReadUpstream, SharedExpertDpIsRead) {
  const UpstreamConfig c = Read({.additional_config = {R"({"enable_shared_expert_dp":true})"}});
  ASSERT_TRUE(c.shared_expert_dp);
  EXPECT_TRUE(c.shared_expert_dp->value);
  EXPECT_TRUE(c.notices.empty());
}

TEST(ReadUpstream, EitherVariableOfFlashComm1TurnsItOn) {
  struct Row {
    const char *now, *before;
    bool on;
  };
  for (const Row& row : {Row{"1", "0", true}, Row{"0", "1", true}, Row{"", "1", true},
                         Row{"1", "", true}, Row{"0", "0", false}, Row{"0", "", false}}) {
    const UpstreamConfig c = Read({.environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", row.now},
                                                   {"VLLM_ASCEND_ENABLE_FLASHCOMM", row.before}}});
    EXPECT_EQ(c.flashcomm1->value, row.on) << row.now << "|" << row.before;
  }
  EXPECT_FALSE(Read({.environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", ""}}}).flashcomm1);
}

TEST(ReadUpstream, BothWishesForAFusedMatmulAreKept) {
  const UpstreamConfig c = Read({.environment = {{"VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", "1"},
                                                 {"VLLM_ASCEND_FUSED_O_PROJ_AR", "1"}}});
  ASSERT_EQ(c.matmul_all_reduce.size(), 2u);
  EXPECT_EQ(c.matmul_all_reduce[0].by, "VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE=1");
  EXPECT_EQ(c.matmul_all_reduce[1].by, "VLLM_ASCEND_FUSED_O_PROJ_AR=1");
  EXPECT_TRUE(Read({.additional_config = {R"({"enable_matmul_allreduce":false})"},
                    .environment = {{"VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", "1"}}})
                  .matmul_all_reduce.empty());
}

TEST(ReadUpstream, WhatIsTakenWithoutEffectIsOneLineAnOption) {
  const UpstreamConfig c = Read(
      {.compilation_config =
           {R"({"cudagraph_mode":"FULL_DECODE_ONLY","mode":3,"pass_config":{"fuse_norm_quant":true}})"},
       .additional_config =
           {R"({"enable_cpu_binding":true,"finegrained_tp_config":{"lmhead_tensor_parallel_size":2}})"},
       .environment = {{"HCCL_BUFFSIZE", "1024"}, {"TASK_QUEUE_ENABLE", "1"}}});
  ASSERT_EQ(c.notices.size(), 3u);
  EXPECT_THAT(c.notices[0].text, HasSubstr("--compilation-config: cudagraph_mode, mode, "
                                           "pass_config.fuse_norm_quant: taken, without effect"));
  EXPECT_THAT(c.notices[1].text,
              HasSubstr("--additional-config: enable_cpu_binding, "
                        "finegrained_tp_config.lmhead_tensor_parallel_size: taken"));
  EXPECT_THAT(c.notices[2].text, HasSubstr("HCCL_BUFFSIZE, TASK_QUEUE_ENABLE"));
  EXPECT_EQ(c.notices[2].level, LogLevel::kInfo);
}

TEST(ReadUpstream, WrongWordsAreOneErrorThatNamesThem) {
  struct Row {
    UpstreamWords words;
    const char* message;
  };
  const Row rows[] = {
      {{.compilation_config = {"x"}}, "--compilation-config: bad JSON"},
      {{.compilation_config = {"3"}},
       "--compilation-config '3': a JSON object wanted, found integer"},
      {{.compilation_config = {R"({"pass_config":true})"}},
       "--compilation-config: 'pass_config' must be an object, found true"},
      {{.compilation_config = {R"({"pass_config":{"enable_spp":true}})"}},
       "--compilation-config pass_config: unknown key 'enable_spp'; did you mean 'enable_sp'?"},
      {{.compilation_config = {R"({"pass_config":{"enable_sp":"yes"}})"}},
       "--compilation-config pass_config: 'enable_sp' must be true or false, found \"yes\""},
      {{.compilation_config = {R"({"pass_config":{"sp_min_token_num":-1}})"}},
       "'sp_min_token_num' must be an integer from 0 to"},
      {{.compilation_config = {R"({"pass_config":{"sp_min_token_num":1.5}})"}}, "found 1.5"},
      {{.additional_config = {R"({"layer_shading":[]})"}},
       "--additional-config: unknown key 'layer_shading'; did you mean 'layer_sharding'?"},
      {{.additional_config = {R"({"enable_flashcomm1":1})"}},
       "--additional-config: 'enable_flashcomm1' must be true or false, found 1"},
      {{.additional_config = {R"({"flashcomm2_parallel_size":"2"})"}},
       "'flashcomm2_parallel_size' must be an integer"},
      {{.additional_config =
            {R"({"flashcomm2_parallel_size":2,"enable_flashcomm2_parallel_size":4})"}},
       "'enable_flashcomm2_parallel_size' is 4 and 'flashcomm2_parallel_size' 2"},
      {{.additional_config = {R"({"layer_sharding":"o_proj"})"}},
       "'layer_sharding' must be an array"},
      {{.additional_config = {R"({"layer_sharding":[1]})"}}, "'layer_sharding' must be an array"},
      {{.additional_config = {R"({"finegrained_tp_config":{"o_proj":2}})"}},
       "finegrained_tp_config: unknown key 'o_proj'; there are embedding_tensor_parallel_size"},
      {{.kv_transfer_config = {R"({"kv_role":"producer"})"}},
       "'kv_role' must be kv_producer, kv_consumer or kv_both, found \"producer\""},
      {{.environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", "true"}}},
       "VLLM_ASCEND_ENABLE_FLASHCOMM1='true': an integer wanted"},
      {{.environment = {{"VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", "2x"}}},
       "VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE='2x'"},
  };
  for (const Row& row : rows) {
    const Result<UpstreamConfig> config = ReadUpstream(row.words);
    ASSERT_FALSE(config.ok()) << row.message;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalid);
    EXPECT_THAT(config.status().message(), HasSubstr(row.message));
    EXPECT_EQ(config.status().message().find('\n'), std::string::npos);
  }
}

TEST(ReadUpstream, EveryVariableThatItReadsIsListed) {
  const auto names = UpstreamVariables();
  for (const std::string_view name :
       {"VLLM_ASCEND_ENABLE_FLASHCOMM1", "VLLM_ASCEND_ENABLE_FLASHCOMM",
        "VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", "VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE",
        "VLLM_ASCEND_FUSED_O_PROJ_AR"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

}  // namespace
}  // namespace weft::cli
