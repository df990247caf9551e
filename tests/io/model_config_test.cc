#include "io/model_config.h"

#include <gtest/gtest.h>

namespace weft::io {
namespace {

constexpr ConfigNames kNames{.hidden_size = "hidden_size", .heads = "num_attention_heads", .kv_heads = "num_key_value_heads",
                             .head_dim = "head_dim", .rope_dims = "rotary_dims", .bos_id = "bos_token_id", .eos_ids = "eos_token_id"};

ModelConfig Good() {
  ModelConfig c;
  c.source = "config.json";
  c.heads = 9, c.kv_heads = 3, c.head_dim = 64, c.vocab_size = 100;
  c.rope.dims = 64;
  c.bos_id = 0;
  c.eos_ids = {99};
  return c;
}

TEST(ModelConfig, WhatFitsTogetherIsLetThrough) {
  EXPECT_TRUE(CheckConfig(Good(), kNames).ok());
  ModelConfig c = Good();
  c.rope.dims = 32;  // a part of the head turns
  c.bos_id.reset();
  EXPECT_TRUE(CheckConfig(c, kNames).ok());
}

TEST(ModelConfig, EachBrokenRelationIsNamedByTheSourcesOwnKey) {
  struct Case {
    const char* key;
    void (*spoil)(ModelConfig&);
    const char* found;
  };
  const Case cases[] = {
      {"num_key_value_heads", [](ModelConfig& c) { c.kv_heads = 4; }, "found 4"},
      {"head_dim", [](ModelConfig& c) { c.head_dim = 63; }, "found 63"},
      {"rotary_dims", [](ModelConfig& c) { c.rope.dims = 66; }, "found 66"},
      {"rotary_dims", [](ModelConfig& c) { c.rope.dims = 31; }, "found 31"},
      {"rotary_dims", [](ModelConfig& c) { c.rope.dims = 0; }, "found 0"},
      {"num_attention_heads", [](ModelConfig& c) { c.heads = 1 << 16, c.kv_heads = 1; }, "found 65536"},
      {"bos_token_id", [](ModelConfig& c) { c.bos_id = 100; }, "found 100"},
      {"eos_token_id", [](ModelConfig& c) { c.eos_ids = {3, -1}; }, "found -1"},
      {"high_freq_factor",
       [](ModelConfig& c) {
         c.rope.scaling = RopeScaling::kLlama3;
         c.rope.low_freq_factor = 4, c.rope.high_freq_factor = 4;
       },
       "found 4"},
  };
  for (const Case& one : cases) {
    ModelConfig c = Good();
    one.spoil(c);
    const Status status = CheckConfig(c, kNames);
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << one.key;
    EXPECT_TRUE(status.message().starts_with(std::string("config.json: '") + one.key + "' must be ")) << status.message();
    EXPECT_TRUE(status.message().ends_with(one.found)) << status.message();
  }
}

}  // namespace
}  // namespace weft::io
