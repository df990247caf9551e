#include "io/model_config.h"

#include <gtest/gtest.h>

namespace weft::io {
namespace {

constexpr ConfigNames kNames{.hidden_size = "hidden_size",
                             .heads = "num_attention_heads",
                             .kv_heads = "num_key_value_heads",
                             .head_dim = "head_dim",
                             .rope_dims = "rotary_dims",
                             .bos_id = "bos_token_id",
                             .eos_ids = "eos_token_id",
                             .intermediate_size = "intermediate_size",
                             .key_heads = "linear_num_key_heads",
                             .value_heads = "linear_num_value_heads",
                             .experts = "num_experts",
                             .experts_per_token = "num_experts_per_tok"};

ModelConfig Good() {
  ModelConfig c;
  c.source = "config.json";
  c.heads = 9, c.kv_heads = 3, c.head_dim = 64, c.vocab_size = 100, c.intermediate_size = 96;
  c.rope.dims = 64;
  c.bos_id = 0;
  c.eos_ids = {99};
  return c;
}

// With everything that a dense decoder lacks.
ModelConfig Hybrid() {
  ModelConfig c = Good();
  c.layers = 3;
  c.layer_kinds = {LayerKind::kLinearAttention, LayerKind::kLinearAttention,
                   LayerKind::kFullAttention};
  c.linear = {.key_heads = 4, .value_heads = 12, .key_dim = 16, .value_dim = 32, .conv_kernel = 4};
  c.experts = 8, c.experts_per_token = 8, c.moe_intermediate_size = 24;
  c.dense_layers = {1};
  return c;
}

TEST(ModelConfig, WhatFitsTogetherIsLetThrough) {
  EXPECT_TRUE(CheckConfig(Good(), kNames).ok());
  ModelConfig c = Good();
  c.rope.dims = 32;  // a part of the head turns
  c.bos_id.reset();
  EXPECT_TRUE(CheckConfig(c, kNames).ok());
  EXPECT_TRUE(CheckConfig(Hybrid(), kNames).ok());
  c = Hybrid();
  c.dense_layers.clear();
  c.intermediate_size = 0;  // no layer needs it
  EXPECT_TRUE(CheckConfig(c, kNames).ok());
}

TEST(ModelConfig, TellsALayersKindAndWhetherItHasExperts) {
  const ModelConfig c = Hybrid();
  EXPECT_EQ(c.KindOf(1), LayerKind::kLinearAttention);
  EXPECT_EQ(c.KindOf(2), LayerKind::kFullAttention);
  EXPECT_TRUE(c.IsMoe(0));
  EXPECT_FALSE(c.IsMoe(1));
  EXPECT_TRUE(c.IsMoe(3)) << "the draft head's, behind the last";
  EXPECT_EQ(Good().KindOf(5), LayerKind::kFullAttention);
  EXPECT_FALSE(Good().IsMoe(0));
  EXPECT_EQ(c.linear.key_width(), 64);
  EXPECT_EQ(c.linear.value_width(), 384);
  EXPECT_EQ(c.linear.channels(), 512);
}

TEST(ModelConfig, EachBrokenRelationIsNamedByTheSourcesOwnKey) {
  struct Case {
    const char* key;
    void (*spoil)(ModelConfig&);
    const char* found;
    bool hybrid = false;
  };
  const Case cases[] = {
      {"num_key_value_heads", [](ModelConfig& c) { c.kv_heads = 4; }, "found 4"},
      {"head_dim", [](ModelConfig& c) { c.head_dim = 63; }, "found 63"},
      {"rotary_dims", [](ModelConfig& c) { c.rope.dims = 66; }, "found 66"},
      {"rotary_dims", [](ModelConfig& c) { c.rope.dims = 31; }, "found 31"},
      {"rotary_dims", [](ModelConfig& c) { c.rope.dims = 0; }, "found 0"},
      {"num_attention_heads", [](ModelConfig& c) { c.heads = 1 << 16, c.kv_heads = 1; },
       "found 65536"},
      {"bos_token_id", [](ModelConfig& c) { c.bos_id = 100; }, "found 100"},
      {"eos_token_id",
       [](ModelConfig& c) {
         c.eos_ids = {3, -1};
       },
       "found -1"},
      {"high_freq_factor",
       [](ModelConfig& c) {
         c.rope.scaling = RopeScaling::kLlama3;
         c.rope.low_freq_factor = 4, c.rope.high_freq_factor = 4;
       },
       "found 4"},
      {"intermediate_size", [](ModelConfig& c) { c.intermediate_size = 0; }, "found 0"},
      {"intermediate_size", [](ModelConfig& c) { c.intermediate_size = 0; }, "found 0", true},
      {"linear_num_value_heads", [](ModelConfig& c) { c.linear.value_heads = 6; }, "found 6", true},
      {"linear_num_key_heads",
       [](ModelConfig& c) {
         c.linear.key_heads = c.linear.value_heads = 1 << 16, c.linear.key_dim = 17;
       },
       "found 65536", true},
      {"linear_num_value_heads", [](ModelConfig& c) { c.linear.value_heads = 1 << 16; },
       "found 65536", true},
      {"num_experts_per_tok", [](ModelConfig& c) { c.experts_per_token = 9; }, "found 9", true},
  };
  for (const Case& one : cases) {
    ModelConfig c = one.hybrid ? Hybrid() : Good();
    one.spoil(c);
    const Status status = CheckConfig(c, kNames);
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << one.key;
    EXPECT_TRUE(
        status.message().starts_with(std::string("config.json: '") + one.key + "' must be "))
        << status.message();
    EXPECT_TRUE(status.message().ends_with(one.found)) << status.message();
  }
}

}  // namespace
}  // namespace weft::io
