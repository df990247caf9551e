// Experts, linear attention and draft heads in GGUF metadata.
// Covers src/io/gguf_config.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "io/gguf_config.h"
#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct HybridKeys {
  std::string architecture = "qwen35moe";
  std::vector<std::string> without;
  std::function<void(GgufWriter&)> with = [](GgufWriter&) {};

  Result<ModelConfig> Read() const {
    GgufWriter w;
    const auto u32 = [&](const std::string& key, uint32_t value) {
      if (std::find(without.begin(), without.end(), key) == without.end())
        w.U32(architecture + "." + key, value);
    };
    w.String("general.architecture", architecture);
    u32("block_count", 9);
    u32("context_length", 256);
    u32("embedding_length", 64);
    u32("feed_forward_length", 96);
    u32("attention.head_count", 4);
    u32("attention.head_count_kv", 2);
    u32("attention.key_length", 32);
    u32("rope.dimension_count", 8);
    w.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
    w.F32(architecture + ".rope.freq_base", 1e7f);
    u32("nextn_predict_layers", architecture == "qwen3moe" ? 0 : 1);
    u32("ssm.group_count", 2);
    u32("ssm.time_step_rank", 6);
    u32("ssm.state_size", 16);
    u32("ssm.inner_size", 192);
    u32("ssm.conv_kernel", 4);
    if (architecture != "qwen35") {
      u32("expert_count", 8);
      u32("expert_used_count", 2);
      u32("expert_feed_forward_length", 48);
    }
    if (architecture == "qwen35moe" || architecture == "qwen3next")
      u32("expert_shared_feed_forward_length", 40);
    w.Strings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e"});
    with(w);
    const std::string file = w.Build();
    const Result<Gguf> gguf = Gguf::Parse(BytesOfText(file), "x.gguf");
    if (!gguf.ok()) return gguf.status();
    return ParseGgufConfig(gguf.value(), gguf.value().tensors());
  }
};

HybridKeys With(std::function<void(GgufWriter&)> with, std::vector<std::string> without = {}) {
  return {.without = std::move(without), .with = std::move(with)};
}

// An array of bools.
void Bools(GgufWriter& w, std::string_view key, const std::vector<bool>& values) {
  ByteWriter body;
  body.Put<uint32_t>(7).Put<uint64_t>(values.size());
  for (const bool value : values) body.Put<uint8_t>(value);
  w.Pair(key, 9, body.bytes());
}

TEST(GgufHybridConfig, ReadsAQwen35WithExperts) {
  const auto config = HybridKeys{}.Read();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->family, "qwen3_5");
  EXPECT_EQ(config->architecture, "qwen35moe");
  EXPECT_EQ(config->layers, 8) << "the last block is the draft head's";
  EXPECT_EQ(config->mtp_layers, 1);
  EXPECT_THAT(config->layer_kinds,
              ElementsAre(kLinear, kLinear, kLinear, kFull, kLinear, kLinear, kLinear, kFull));
  EXPECT_EQ(config->linear.key_heads, 2);
  EXPECT_EQ(config->linear.value_heads, 6);
  EXPECT_EQ(config->linear.key_dim, 16);
  EXPECT_EQ(config->linear.value_dim, 32) << "of inner_size";
  EXPECT_EQ(config->linear.conv_kernel, 4);
  EXPECT_EQ(config->experts, 8);
  EXPECT_EQ(config->experts_per_token, 2);
  EXPECT_EQ(config->moe_intermediate_size, 48);
  EXPECT_EQ(config->shared_expert_intermediate_size, 40);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_THAT(config->dense_layers, IsEmpty());
  EXPECT_TRUE(config->attn_output_gate);
  EXPECT_FALSE(config->gain_plus_one) << "the converter has added it";
  EXPECT_EQ(config->rope.dims, 8);
}

TEST(GgufHybridConfig, EachArchitectureHasItsFamilyAndItsParts) {
  struct Case {
    const char *architecture, *family;
    int64_t experts, shared, key_heads, layers;
  };
  for (const Case& c :
       {Case{"qwen3moe", "qwen3_moe", 8, 0, 0, 9}, Case{"qwen3next", "qwen3_next", 8, 40, 2, 8},
        Case{"qwen35", "qwen3_5", 0, 0, 2, 8}, Case{"qwen35moe", "qwen3_5", 8, 40, 2, 8}}) {
    const auto config = HybridKeys{.architecture = c.architecture}.Read();
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->family, c.family);
    EXPECT_EQ(config->experts, c.experts);
    EXPECT_EQ(config->shared_expert_intermediate_size, c.shared);
    EXPECT_EQ(config->linear.key_heads, c.key_heads);
    EXPECT_EQ(config->layers, c.layers);
    EXPECT_EQ(config->attn_output_gate, c.key_heads > 0);
  }
}

TEST(GgufHybridConfig, LayerKindsComeFromAListOrAnInterval) {
  const auto by_interval =
      With([](GgufWriter& w) { w.U32("qwen35moe.full_attention_interval", 2); }).Read();
  EXPECT_THAT(by_interval->layer_kinds,
              ElementsAre(kLinear, kFull, kLinear, kFull, kLinear, kFull, kLinear, kFull));
  const auto by_list = With([](GgufWriter& w) {
                         Bools(w, "qwen35moe.attention.recurrent_layers",
                               {true, true, true, true, true, true, true, false, false});
                       }).Read();
  EXPECT_EQ(by_list->KindOf(3), kLinear);
  EXPECT_EQ(by_list->KindOf(7), kFull);
  const auto all_full = With([](GgufWriter& w) { w.U32("qwen35moe.full_attention_interval", 1); },
                             {"ssm.group_count"})
                            .Read();
  EXPECT_THAT(all_full->layer_kinds, IsEmpty());
}

TEST(GgufHybridConfig, TakesWhatSaysTheSame) {
  const auto config = With(
                          [](GgufWriter& w) {
                            w.Bool("qwen35moe.expert_weights_norm", false)
                                .U32("qwen35moe.expert_gating_func", 1)
                                .F32("qwen35moe.expert_weights_scale", 1)
                                .U32("qwen35moe.leading_dense_block_count", 0)
                                .I32s("qwen35moe.rope.dimension_sections", {2, 1, 1, 0});
                          },
                          {"nextn_predict_layers", "feed_forward_length"})
                          .Read();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FALSE(config->norm_topk_prob);
  EXPECT_EQ(config->layers, 9);
  EXPECT_EQ(config->mtp_layers, 0);
}

TEST(GgufHybridConfig, FullAttentionsBiasesAreThoseOfItsFirstLayer) {
  const auto config =
      With([](GgufWriter& w) { w.Tensor("blk.3.attn_q.bias", DType::kF32, {256}); }).Read();
  EXPECT_TRUE(config->attention_bias);
}

TEST(GgufHybridConfig, RefusesEachInconsistentFileNamingKeyAndValue) {
  constexpr StatusCode kBad = StatusCode::kInvalid;
  constexpr StatusCode kNo = StatusCode::kUnsupported;
  const auto missing = [](const char* key) { return HybridKeys{.without = {key}}; };
  const auto instead = [](const char* key, uint32_t value) {
    return With([=](GgufWriter& w) { w.U32(std::string("qwen35moe.") + key, value); }, {key});
  };
  struct Case {
    HybridKeys keys;
    StatusCode code;
    const char* words;
  };
  const Case cases[] = {
      {missing("expert_count"), kBad, "'qwen35moe.expert_count' is missing"},
      {instead("expert_count", 0), kBad, "'qwen35moe.expert_count' must be an integer from 1"},
      {instead("expert_used_count", 9), kBad,
       "'qwen35moe.expert_used_count' must be at most 'qwen35moe.expert_count' = 8, found 9"},
      {missing("expert_feed_forward_length"), kBad,
       "'qwen35moe.expert_feed_forward_length' is missing"},
      {missing("expert_shared_feed_forward_length"), kBad,
       "'qwen35moe.expert_shared_feed_forward_length' is missing"},
      {instead("nextn_predict_layers", 9), kBad,
       "'qwen35moe.nextn_predict_layers' must be an integer from 0 to 8, found 9"},
      {missing("ssm.group_count"), kBad, "'qwen35moe.ssm.group_count' is missing"},
      {instead("ssm.time_step_rank", 3), kBad,
       "'qwen35moe.ssm.time_step_rank' must be a multiple of 'qwen35moe.ssm.group_count' = 2, "
       "found 3"},
      {missing("ssm.state_size"), kBad, "'qwen35moe.ssm.state_size' is missing"},
      {missing("ssm.conv_kernel"), kBad, "'qwen35moe.ssm.conv_kernel' is missing"},
      {instead("ssm.inner_size", 193), kBad,
       "'qwen35moe.ssm.inner_size' must be a multiple of 'qwen35moe.ssm.time_step_rank' = 6, found "
       "193"},
      {With([](GgufWriter& w) { w.U32("qwen35moe.expert_weights_norm", 1); }), kBad,
       "'qwen35moe.expert_weights_norm' must be a bool"},
      {With([](GgufWriter& w) { w.U32("qwen35moe.expert_gating_func", 2); }), kNo,
       "'qwen35moe.expert_gating_func' = 2"},
      {With([](GgufWriter& w) { w.F32("qwen35moe.expert_weights_scale", 2.5f); }), kNo,
       "'qwen35moe.expert_weights_scale' = 2.5"},
      {With([](GgufWriter& w) { w.U32("qwen35moe.leading_dense_block_count", 1); }), kNo,
       "'qwen35moe.leading_dense_block_count' = 1"},
      {With([](GgufWriter& w) { w.U32("qwen35moe.expert_group_count", 4); }), kNo,
       "'qwen35moe.expert_group_count' = 4"},
      {With([](GgufWriter& w) {
         w.I32s("qwen35moe.rope.dimension_sections", {11, 11, 10, 0});
       }),
       kBad, "'qwen35moe.rope.dimension_sections' must be up to four counts with the sum 4"},
      {With([](GgufWriter& w) {
         Bools(w, "qwen35moe.attention.recurrent_layers", {true, false});
       }),
       kBad,
       "'qwen35moe.attention.recurrent_layers' must be an array of 'qwen35moe.block_count' = 9 "
       "bools, false for the last 1"},
      {With([](GgufWriter& w) {
         Bools(w, "qwen35moe.attention.recurrent_layers", std::vector<bool>(9, true));
       }),
       kBad, "false for the last 1, found array of bool [9]"},
      {HybridKeys{.architecture = "qwen3moe",
                  .with = [](GgufWriter& w) { w.U32("qwen3moe.logit_scale", 2); }},
       kNo, "'qwen3moe.logit_scale' = 2"},
      {HybridKeys{.architecture = "qwen35",
                  .with = [](GgufWriter& w) { w.U32("qwen35.expert_count", 8); }},
       kNo, "'qwen35.expert_count' = 8"},
  };
  for (const Case& c : cases) {
    const Result<ModelConfig> config = c.keys.Read();
    ASSERT_FALSE(config.ok()) << c.words;
    EXPECT_THAT(config.status().message(), HasSubstr(c.words));
    EXPECT_THAT(config.status().message(), testing::StartsWith("x.gguf: "));
    EXPECT_EQ(config.status().code(), c.code) << config.status().message();
  }
}

}  // namespace
}  // namespace weft::io
