// Experts, linear attention, draft heads and nested files in config.json.
// Covers src/io/hf_config.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/hf_config.h"
#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kMoe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 32, "vocab_size": 300, "max_position_embeddings": 256, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
  "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "eos_token_id": 2,
  "sliding_window": 16, "use_sliding_window": false})";

constexpr std::string_view kNext = R"({
  "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 64,
  "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
  "max_position_embeddings": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000000.0,
  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
  "shared_expert_intermediate_size": 40, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
  "linear_key_head_dim": 16, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "eos_token_id": 2})";

// The text part of a Qwen3.5 with experts.
constexpr std::string_view kText = R"({
  "model_type": "qwen3_5_moe_text", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 300, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-06, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
  "shared_expert_intermediate_size": 40, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
  "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
  "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
  "attn_output_gate": true, "mtp_num_hidden_layers": 1, "eos_token_id": 248, "dtype": "bfloat16",
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                      "mrope_interleaved": true, "mrope_section": [2, 1, 1]}})";

Json ParseText(std::string_view text) {
  Result<Json> json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status().message();
  return std::move(json).value();
}

// `base` with members replaced or added; a member given as "-" is taken away.
Json Changed(std::string_view base, std::string_view changes) {
  Json json = ParseText(base);
  const Json wanted = ParseText(changes);
  for (const auto& [key, value] : wanted.as_object()) {
    if (value == Json("-")) {
      std::erase_if(json.as_object(), [&](const Json::Member& m) { return m.first == key; });
    } else {
      json.Set(key, value);
    }
  }
  return json;
}

Result<ModelConfig> Moe(std::string_view changes) {
  return ParseHfConfig(Changed(kMoe, changes), "dir/config.json");
}
Result<ModelConfig> Next(std::string_view changes) {
  return ParseHfConfig(Changed(kNext, changes), "dir/config.json");
}

// As the releases are: the text part inside.
Result<ModelConfig> Nested(std::string_view text_changes, std::string_view outer_changes = "{}") {
  Json outer = Changed(
      R"({"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
                           "vision_config": {"depth": 27}, "tie_word_embeddings": false})",
      outer_changes);
  outer.Set("text_config", Changed(kText, text_changes));
  return ParseHfConfig(outer, "dir/config.json");
}

TEST(HfHybridConfig, ReadsAQwen3WithExperts) {
  const Result<ModelConfig> config = Moe("{}");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->family, "qwen3_moe");
  EXPECT_EQ(config->experts, 8);
  EXPECT_EQ(config->experts_per_token, 2);
  EXPECT_EQ(config->moe_intermediate_size, 48);
  EXPECT_EQ(config->shared_expert_intermediate_size, 0);
  EXPECT_EQ(config->intermediate_size, 96);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_THAT(config->dense_layers, IsEmpty());
  EXPECT_THAT(config->layer_kinds, IsEmpty());
  EXPECT_EQ(config->rope.dims, 32);
  EXPECT_FALSE(config->gain_plus_one);
  EXPECT_FALSE(config->attn_output_gate);
  EXPECT_EQ(config->mtp_layers, 0);
  EXPECT_FALSE(Moe(R"({"norm_topk_prob":"-"})")->norm_topk_prob) << "as transformers has it";
  EXPECT_EQ(Moe(R"({"head_dim":"-"})")->head_dim, 16);
}

TEST(HfHybridConfig, LayersWithoutExpertsAreThoseOfTheListAndBetweenSteps) {
  EXPECT_THAT(Moe(R"({"mlp_only_layers":[3,1,3]})")->dense_layers, ElementsAre(1, 3));
  EXPECT_THAT(Moe(R"({"decoder_sparse_step":2})")->dense_layers, ElementsAre(0, 2));
  EXPECT_THAT(Moe(R"({"decoder_sparse_step":2,"mlp_only_layers":[1]})")->dense_layers,
              ElementsAre(0, 1, 2));
  EXPECT_EQ(Moe(R"({"intermediate_size":"-"})")->intermediate_size, 0) << "no layer needs it";
}

TEST(HfHybridConfig, ReadsAQwen3Next) {
  const Result<ModelConfig> config = Next("{}");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->family, "qwen3_next");
  EXPECT_EQ(config->head_dim, 256) << "the family's";
  EXPECT_EQ(config->rope.dims, 64) << "a quarter turns";
  EXPECT_THAT(config->layer_kinds,
              ElementsAre(kLinear, kLinear, kLinear, kFull, kLinear, kLinear, kLinear, kFull));
  EXPECT_EQ(config->linear.key_heads, 2);
  EXPECT_EQ(config->linear.value_heads, 4);
  EXPECT_EQ(config->linear.key_dim, 16);
  EXPECT_EQ(config->linear.value_dim, 32);
  EXPECT_EQ(config->linear.conv_kernel, 4);
  EXPECT_EQ(config->linear.output_gate, GateActivation::kSilu);
  EXPECT_EQ(config->shared_expert_intermediate_size, 40);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_TRUE(config->attn_output_gate);
  EXPECT_TRUE(config->gain_plus_one);
  EXPECT_EQ(config->mtp_layers, 1) << "the releases do not say";
  EXPECT_FALSE(config->vision);
}

TEST(HfHybridConfig, ReadsANestedQwen35) {
  const Result<ModelConfig> config = Nested("{}");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->family, "qwen3_5");
  EXPECT_EQ(config->architecture, "Qwen3_5MoeForConditionalGeneration");
  EXPECT_THAT(config->layer_kinds, ElementsAre(kLinear, kFull, kLinear, kFull)) << "by the list";
  EXPECT_EQ(config->rope.theta, 1e7);
  EXPECT_EQ(config->rope.dims, 8);
  EXPECT_EQ(config->linear.value_heads, 6);
  EXPECT_EQ(config->experts, 8);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_EQ(config->mtp_layers, 1);
  EXPECT_TRUE(config->vision);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_THAT(config->eos_ids, ElementsAre(248));
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_TRUE(Nested(R"({"tie_word_embeddings":true})", R"({"tie_word_embeddings":"-"})")
                  ->tie_word_embeddings);
  EXPECT_TRUE(Nested(R"({"tie_word_embeddings":false})", R"({"tie_word_embeddings":true})")
                  ->tie_word_embeddings);
  EXPECT_THAT(Nested("{}", R"({"eos_token_id":[246,248]})")->eos_ids, ElementsAre(248, 246));
  EXPECT_EQ(Nested(R"({"dtype":"-"})", R"({"dtype":"float32"})")->dtype, DType::kF32);
}

TEST(HfHybridConfig, ReadsTheTextPartAlone) {
  for (const char* architecture : {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"}) {
    for (const char* type : {"qwen3_5", "qwen3_5_text"}) {
      const auto config = ParseHfConfig(
          Changed(
              kText,
              fmt::format(R"({{"architectures":["{}"],"model_type":"{}","intermediate_size":96}})",
                          architecture, type)),
          "dir/config.json");
      ASSERT_TRUE(config.ok()) << config.status().message();
      EXPECT_EQ(config->experts, 0) << "the dense model";
      EXPECT_EQ(config->intermediate_size, 96);
      EXPECT_FALSE(config->vision);
    }
  }
}

TEST(HfHybridConfig, WhatTheFileSaysBeatsTheFamilysDefaults) {
  EXPECT_THAT(Next(R"({"full_attention_interval":2})")->KindOf(1), kFull);
  EXPECT_THAT(Next(R"({"full_attention_interval":1,"linear_num_key_heads":"-"})")->layer_kinds,
              IsEmpty())
      << "all are full attention, and nothing needs the heads";
  EXPECT_EQ(Next(R"({"head_dim":64,"partial_rotary_factor":0.5})")->rope.dims, 32);
  EXPECT_FALSE(Next(R"({"norm_topk_prob":false})")->norm_topk_prob);
  EXPECT_EQ(Next(R"({"mtp_num_hidden_layers":0})")->mtp_layers, 0);
  EXPECT_FALSE(Next(R"({"attn_output_gate":false})")->attn_output_gate);
  EXPECT_EQ(Next(R"({"output_gate_type":"swish"})")->linear.output_gate, GateActivation::kSilu);
  EXPECT_EQ(Next(R"({"output_gate_type":"sigmoid"})")->linear.output_gate,
            GateActivation::kSigmoid);
  EXPECT_EQ(Next(R"({"shared_expert_intermediate_size":"-"})")->shared_expert_intermediate_size, 0);
  EXPECT_TRUE(Next(R"({"layer_scale":false})").ok());
  EXPECT_TRUE(
      Nested(R"({"rope_parameters":{"type":"mrope","rope_theta":10000,"mrope_section":[0,4,0]}})")
          .ok());
}

TEST(HfHybridConfig, RefusesEachInconsistentConfigNamingFileKeyAndValue) {
  constexpr StatusCode kBad = StatusCode::kInvalid;
  constexpr StatusCode kNo = StatusCode::kUnsupported;
  struct Case {
    Result<ModelConfig> config;
    StatusCode code;
    const char* words;
  };
  const Case cases[] = {
      {Moe(R"({"num_experts":"-"})"), kBad, "'num_experts' is missing"},
      {Moe(R"({"num_experts":0})"), kBad,
       "'num_experts' must be an integer from 1 to 65536, found 0"},
      {Moe(R"({"num_experts_per_tok":"-"})"), kBad, "'num_experts_per_tok' is missing"},
      {Moe(R"({"num_experts_per_tok":9})"), kBad,
       "'num_experts_per_tok' must be at most 'num_experts' = 8, found 9"},
      {Moe(R"({"moe_intermediate_size":"-"})"), kBad, "'moe_intermediate_size' is missing"},
      {Moe(R"({"norm_topk_prob":1})"), kBad, "'norm_topk_prob' must be true or false"},
      {Moe(R"({"decoder_sparse_step":0})"), kBad,
       "'decoder_sparse_step' must be an integer from 1"},
      {Moe(R"({"mlp_only_layers":3})"), kBad,
       "'mlp_only_layers' must be an array of layers from 0 to 3, found 3"},
      {Moe(R"({"mlp_only_layers":[4]})"), kBad,
       "'mlp_only_layers' must be an array of layers from 0 to 3, found 4"},
      {Moe(R"({"mlp_only_layers":[1],"intermediate_size":"-"})"), kBad,
       "'intermediate_size' must be above 0 since there are layers without experts, found 0"},
      {Moe(R"({"use_sliding_window":true})"), kNo, "'sliding_window' is 16"},
      {Next(R"({"linear_num_key_heads":"-"})"), kBad, "'linear_num_key_heads' is missing"},
      {Next(R"({"linear_num_value_heads":3})"), kBad,
       "'linear_num_value_heads' must be a multiple of 'linear_num_key_heads' = 2, found 3"},
      {Next(R"({"linear_num_value_heads":65536})"), kBad,
       "'linear_num_value_heads' must be at most 32768 with heads of 32"},
      {Next(R"({"linear_key_head_dim":0})"), kBad, "'linear_key_head_dim' must be"},
      {Next(R"({"linear_value_head_dim":"-"})"), kBad, "'linear_value_head_dim' is missing"},
      {Next(R"({"linear_conv_kernel_dim":65})"), kBad,
       "'linear_conv_kernel_dim' must be an integer from 1 to 64"},
      {Next(R"({"full_attention_interval":0})"), kBad, "'full_attention_interval' must be"},
      {Next(R"({"layer_types":["full_attention"]})"), kBad,
       "'layer_types' must be an array of 'num_hidden_layers' = 8 strings"},
      {Nested(
           R"({"layer_types":["linear_attention","full_attention","sliding_attention","full_attention"]})"),
       kNo,
       "text_config: 'layer_types' has \"sliding_attention\"; full_attention and linear_attention "
       "are supported"},
      {Next(R"({"output_gate_type":"tanh"})"), kNo, "'output_gate_type' is 'tanh'"},
      {Next(R"({"layer_scale":true})"), kNo, "'layer_scale' is true"},
      {Next(R"({"mtp_num_hidden_layers":17})"), kBad,
       "'mtp_num_hidden_layers' must be an integer from 0 to 16"},
      {Nested(R"({"mtp_use_dedicated_embeddings":true})"), kNo,
       "'mtp_use_dedicated_embeddings' is true"},
      {Nested(R"({"rope_parameters":{"rope_theta":10000,"mrope_section":[11,11,10]}})"), kBad,
       "rope_parameters: 'mrope_section' must be three counts with the sum 4, a head's "
       "frequencies, found [11,11,10]"},
      {Nested(R"({"rope_parameters":{"rope_theta":10000,"mrope_section":[2,2]}})"), kBad,
       "'mrope_section' must be"},
      {Nested(R"({"rope_parameters":{"rope_theta":10000,"mrope_section":[5,-1,0]}})"), kBad,
       "'mrope_section' must be"},
      {Nested(R"({"model_type":"qwen3_5_text"})"), kBad,
       "text_config: 'model_type' must be qwen3_5_moe or qwen3_5_moe_text for "
       "Qwen3_5MoeForConditionalGeneration, found "
       "\"qwen3_5_text\""},
      {Nested(R"({"hidden_size":"-"})"), kBad, "text_config: 'hidden_size' is missing"},
      {Nested("{}", R"({"quantization_config":{"quant_method":"fp8"}})"), kNo,
       "'quantization_config' (\"fp8\")"},
      {ParseHfConfig(
           ParseText(R"({"architectures":["Qwen3_5ForConditionalGeneration"],"text_config":3})"),
           "dir/config.json"),
       kBad, "'text_config' must be an object, found 3"},
  };
  for (const Case& c : cases) {
    ASSERT_FALSE(c.config.ok()) << c.words;
    EXPECT_THAT(c.config.status().message(), HasSubstr(c.words));
    EXPECT_THAT(c.config.status().message(), testing::StartsWith("dir/config.json: "));
    EXPECT_EQ(c.config.status().code(), c.code) << c.words;
  }
}

}  // namespace
}  // namespace weft::io
