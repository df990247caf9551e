#include "io/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json Config(std::string_view text = kTinyLlamaConfig) {
  Result<Json> json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status().message();
  return std::move(json).value();
}

// The tiny llama with members replaced or added; a member given as "-" is taken away.
Json Changed(std::string_view changes) {
  Json json = Config();
  const Json wanted = Config(changes);
  for (const auto& [key, value] : wanted.as_object()) {
    if (value == Json("-")) {
      std::erase_if(json.as_object(), [&](const Json::Member& m) { return m.first == key; });
    } else {
      json.Set(key, value);
    }
  }
  return json;
}

Result<ModelConfig> ParseHf(std::string_view changes) {
  return ParseHfConfig(Changed(changes), "dir/config.json");
}

TEST(HfConfig, ReadsALlama) {
  const Result<ModelConfig> config = ParseHf("{}");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const ModelConfig& c = config.value();
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.family, "llama");
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 32) << "not hidden / heads";
  EXPECT_EQ(c.intermediate_size, 128);
  EXPECT_EQ(c.vocab_size, 300);
  EXPECT_EQ(c.max_position, 256);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.rms_norm_eps_float(), 1e-5f);
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_EQ(c.rope.dims, 32);
  EXPECT_EQ(c.rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_FALSE(c.attention_output_bias);
  EXPECT_FALSE(c.mlp_bias);
  EXPECT_EQ(c.bos_id, 1);
  EXPECT_THAT(c.eos_ids, ElementsAre(2));
  EXPECT_EQ(c.dtype, DType::kBF16);
  EXPECT_THAT(c.notes, IsEmpty());
}

TEST(HfConfig, HeadDimIsDerivedOnlyWhereTheModelDoes) {
  EXPECT_EQ(ParseHf(R"({"head_dim":"-"})").value().head_dim, 16);
  EXPECT_EQ(ParseHf(R"({"head_dim":null})").value().head_dim, 16);
  EXPECT_EQ(ParseHf(R"({"architectures":["Qwen3ForCausalLM"],"head_dim":"-"})").value().head_dim,
            128);
  EXPECT_EQ(ParseHf(R"({"num_key_value_heads":"-"})").value().kv_heads, 4);
}

TEST(HfConfig, RopeOfBothGenerationsOfTransformers) {
  const char* scaled =
      R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":128)";
  for (
      const std::string& changes :
      {fmt::format(R"({{"rope_theta":500000.0,"rope_scaling":{{"rope_type":"llama3",{}}}}})",
                   scaled),
       fmt::format(R"({{"rope_theta":500000,"rope_scaling":{{"type":"llama3",{}}}}})", scaled),
       fmt::format(
           R"({{"rope_theta":"-","rope_scaling":"-","rope_parameters":{{"rope_type":"llama3","rope_theta":500000.0,{}}}}})",
           scaled)}) {
    const Result<ModelConfig> config = ParseHf(changes);
    ASSERT_TRUE(config.ok()) << config.status().message();
    const RopeConfig& rope = config.value().rope;
    EXPECT_EQ(rope.scaling, RopeScaling::kLlama3) << changes;
    EXPECT_EQ(rope.theta, 500000.0);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.low_freq_factor, 1.0);
    EXPECT_EQ(rope.high_freq_factor, 4.0);
    EXPECT_EQ(rope.original_max_position, 128);
  }
  const auto linear = ParseHf(R"({"rope_scaling":{"type":"linear","factor":2}})");
  EXPECT_EQ(linear.value().rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.value().rope.factor, 2.0);
  EXPECT_EQ(ParseHf(R"({"rope_parameters":{"rope_type":"default","rope_theta":10000.0}})")
                .value()
                .rope.theta,
            10000.0);
  EXPECT_EQ(ParseHf(R"({"partial_rotary_factor":0.5})").value().rope.dims, 16);
  EXPECT_EQ(ParseHf(R"({"rope_parameters":{"partial_rotary_factor":0.25}})").value().rope.dims, 8);
  const auto none = ParseHf(R"({"rope_theta":"-"})");
  EXPECT_EQ(none.value().rope.theta, 10000.0);
  EXPECT_THAT(none.value().notes, ElementsAre(HasSubstr("no 'rope_theta'")));
}

TEST(HfConfig, BiasesOfTheFamilies) {
  EXPECT_TRUE(ParseHf(R"({"attention_bias":true})").value().attention_output_bias);
  const ModelConfig qwen2 = ParseHf(R"({"architectures":["Qwen2ForCausalLM"]})").value();
  EXPECT_EQ(qwen2.family, "qwen2");
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
  EXPECT_TRUE(ParseHf(R"({"mlp_bias":true})").value().mlp_bias);
}

TEST(HfConfig, WindowsThatDoNothingAreLetThrough) {
  EXPECT_TRUE(ParseHf(R"({"sliding_window":null})").ok());
  EXPECT_TRUE(ParseHf(R"({"sliding_window":16,"use_sliding_window":false})").ok());
  EXPECT_TRUE(ParseHf(R"({"architectures":["Qwen2ForCausalLM"],"sliding_window":16})").ok());
  EXPECT_THAT(ParseHf(R"({"sliding_window":256})").value().notes,
              ElementsAre(HasSubstr("'sliding_window' 256")));
  EXPECT_TRUE(ParseHf(R"({"layer_types":["full_attention","full_attention"]})").ok());
}

TEST(HfConfig, CodeIsIgnoredWithANote) {
  const auto config = ParseHf(R"({"auto_map":{"AutoModel":"evil.Model"}})");
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(config.value().notes, ElementsAre(HasSubstr("'auto_map' names code and is ignored")));
}

TEST(HfConfig, EosMayBeAList) {
  EXPECT_THAT(ParseHf(R"({"eos_token_id":[5,6,5]})").value().eos_ids, ElementsAre(5, 6));
  EXPECT_THAT(ParseHf(R"({"eos_token_id":null,"bos_token_id":null})").value().eos_ids, IsEmpty());
}

TEST(HfConfig, GenerationConfigAddsStopsAndSampling) {
  ModelConfig config = ParseHf("{}").value();
  ASSERT_TRUE(AddHfGenerationConfig(
                  Config(R"({"eos_token_id":[2,7],"temperature":0.6,"top_p":0.95,"top_k":20})"),
                  "g", &config)
                  .ok());
  EXPECT_THAT(config.eos_ids, ElementsAre(2, 7));
  EXPECT_EQ(config.sampling.temperature, 0.6);
  EXPECT_EQ(config.sampling.top_p, 0.95);
  EXPECT_EQ(config.sampling.top_k, 20);
  ASSERT_TRUE(AddHfGenerationConfig(Config(R"({"temperature":0})"), "g", &config).ok());
  EXPECT_EQ(config.sampling.temperature, 0.0);
  for (const char* bad : {R"({"temperature":-1})", R"({"top_p":0})", R"({"top_p":1.5})",
                          R"({"top_k":1.5})", R"({"top_k":-2})", R"({"eos_token_id":300})",
                          R"({"eos_token_id":"x"})", R"({"temperature":"hot"})"}) {
    const Status status = AddHfGenerationConfig(Config(bad), "dir/generation_config.json", &config);
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << bad;
    EXPECT_THAT(status.message(), HasSubstr("dir/generation_config.json: '")) << bad;
  }
}

TEST(HfConfig, RefusesEachInconsistentConfigNamingFileKeyAndValue) {
  constexpr StatusCode kBad = StatusCode::kInvalid;
  constexpr StatusCode kNo = StatusCode::kUnsupported;
  struct Case {
    const char* changes;
    StatusCode code;
    const char* words;
  };
  const Case cases[] = {
      {R"({"architectures":"-"})", kBad, "'architectures' is missing"},
      {R"({"architectures":[]})", kBad, "'architectures' must be an array of one string, found []"},
      {R"({"architectures":["A","B"]})", kBad, "'architectures' must be"},
      {R"({"architectures":[3]})", kBad, "'architectures' must be"},
      {R"({"architectures":"LlamaForCausalLM"})", kBad, "'architectures' must be"},
      {R"({"architectures":["GPT2LMHeadModel"]})", kNo, "'architectures' is GPT2LMHeadModel"},
      {R"({"hidden_size":"-"})", kBad, "'hidden_size' is missing"},
      {R"({"hidden_size":0})", kBad, "'hidden_size' must be an integer from 1 to 1048576, found 0"},
      {R"({"hidden_size":-64})", kBad, "found -64"},
      {R"({"hidden_size":64.5})", kBad,
       "'hidden_size' must be an integer from 1 to 1048576, found 64.5"},
      {R"({"hidden_size":64.0})", kBad, "found 64.0"},
      {R"({"hidden_size":"64"})", kBad, "found \"64\""},
      {R"({"hidden_size":true})", kBad, "found true"},
      {R"({"hidden_size":[64]})", kBad, "found [64]"},
      {R"({"hidden_size":9223372036854775807})", kBad, "found 9223372036854775807"},
      {R"({"hidden_size":18446744073709551616})", kBad, "'hidden_size' must be an integer"},
      {R"({"hidden_size":1e300})", kBad, "'hidden_size' must be an integer"},
      {R"({"hidden_size":66,"head_dim":"-"})", kBad,
       "'hidden_size' must be a multiple of 'num_attention_heads' = 4 since there is no "
       "'head_dim', found 66"},
      {R"({"num_hidden_layers":0})", kBad, "'num_hidden_layers' must be"},
      {R"({"num_hidden_layers":-1})", kBad, "'num_hidden_layers' must be"},
      {R"({"num_hidden_layers":5000})", kBad, "from 1 to 4096, found 5000"},
      {R"({"num_hidden_layers":"-"})", kBad, "'num_hidden_layers' is missing"},
      {R"({"num_attention_heads":0})", kBad, "'num_attention_heads' must be"},
      {R"({"num_attention_heads":-4})", kBad, "'num_attention_heads' must be"},
      {R"({"num_attention_heads":null})", kBad, "'num_attention_heads' is missing"},
      {R"({"num_attention_heads":65536,"head_dim":4096})", kBad,
       "'num_attention_heads' must be at most 256 with 'head_dim' = 4096"},
      {R"({"num_key_value_heads":3})", kBad,
       "'num_key_value_heads' must be a divisor of 'num_attention_heads' = 4, found 3"},
      {R"({"num_key_value_heads":8})", kBad, "'num_key_value_heads' must be a divisor"},
      {R"({"num_key_value_heads":0})", kBad, "'num_key_value_heads' must be an integer from 1"},
      {R"({"num_key_value_heads":-2})", kBad, "'num_key_value_heads' must be an integer from 1"},
      {R"({"head_dim":0})", kBad, "'head_dim' must be an integer from 1"},
      {R"({"head_dim":33})", kBad, "'head_dim' must be even, found 33"},
      {R"({"head_dim":8192})", kBad, "'head_dim' must be an integer from 1 to 4096"},
      {R"({"head_dim":-32})", kBad, "'head_dim' must be"},
      {R"({"intermediate_size":0})", kBad, "'intermediate_size' must be"},
      {R"({"intermediate_size":"-"})", kBad, "'intermediate_size' is missing"},
      {R"({"intermediate_size":1e9})", kBad, "'intermediate_size' must be an integer"},
      {R"({"vocab_size":0})", kBad, "'vocab_size' must be"},
      {R"({"vocab_size":-5})", kBad, "'vocab_size' must be"},
      {R"({"vocab_size":2147483648})", kBad, "'vocab_size' must be an integer from 1 to 16777216"},
      {R"({"vocab_size":2})", kBad,
       "'eos_token_id' must be a token id from 0 to 1, or a list of them, found 2"},
      {R"({"vocab_size":1})", kBad, "'bos_token_id' must be an integer from 0 to 0, found 1"},
      {R"({"max_position_embeddings":0})", kBad, "'max_position_embeddings' must be"},
      {R"({"max_position_embeddings":"-"})", kBad, "'max_position_embeddings' is missing"},
      {R"({"rms_norm_eps":0})", kBad,
       "'rms_norm_eps' must be a number above 0 and up to 0.1, found 0"},
      {R"({"rms_norm_eps":-1e-6})", kBad, "'rms_norm_eps' must be"},
      {R"({"rms_norm_eps":1e-60})", kBad, "'rms_norm_eps' must be a normal float"},
      {R"({"rms_norm_eps":5.0})", kBad, "'rms_norm_eps' must be"},
      {R"({"rms_norm_eps":"1e-5"})", kBad, "'rms_norm_eps' must be a number"},
      {R"({"rms_norm_eps":null})", kBad, "'rms_norm_eps' is missing"},
      {R"({"rope_theta":0})", kBad, "'rope_theta' must be"},
      {R"({"rope_theta":-1.0})", kBad, "'rope_theta' must be"},
      {R"({"rope_theta":1e300})", kBad, "'rope_theta' must be"},
      {R"({"rope_theta":"big"})", kBad, "'rope_theta' must be a number"},
      {R"({"rope_scaling":3})", kBad, "'rope_scaling' must be an object, found 3"},
      {R"({"rope_scaling":{"type":"yarn","factor":4}})", kNo, "rope type 'yarn' is not supported"},
      {R"({"rope_scaling":{"rope_type":"dynamic","factor":4}})", kNo, "rope type 'dynamic'"},
      {R"({"rope_scaling":{"type":7}})", kBad, "rope_scaling: 'type' must be a string"},
      {R"({"rope_scaling":{"type":"linear"}})", kBad, "rope_scaling: 'factor' is missing"},
      {R"({"rope_scaling":{"type":"linear","factor":0}})", kBad, "rope_scaling: 'factor' must be"},
      {R"({"rope_scaling":{"rope_type":"llama3","factor":8}})", kBad,
       "'low_freq_factor' is missing"},
      {R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1,"original_max_position_embeddings":8192}})",
       kBad, "'high_freq_factor' must be above 'low_freq_factor' = 4, found 1"},
      {R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":0}})",
       kBad, "'original_max_position_embeddings' must be"},
      {R"({"rope_parameters":{"rope_theta":500000}})", kBad,
       "'rope_theta' must be the outer 'rope_theta' = 10000, found 500000"},
      {R"({"partial_rotary_factor":1.5})", kBad, "'partial_rotary_factor' must be"},
      {R"({"partial_rotary_factor":0.01})", kBad,
       "'partial_rotary_factor * head_dim' must be even and from 2 to 'head_dim' = 32, found 0"},
      {R"({"partial_rotary_factor":0.1})", kBad, "found 3"},
      {R"({"rope_interleaved":true})", kNo, "'rope_interleaved' is true"},
      {R"({"hidden_act":"gelu"})", kNo, "'hidden_act' is 'gelu'; only silu"},
      {R"({"hidden_act":1})", kBad, "'hidden_act' must be a string"},
      {R"({"sliding_window":128})", kNo, "'sliding_window' is 128"},
      {R"({"architectures":["Qwen3ForCausalLM"],"sliding_window":128,"use_sliding_window":true})",
       kNo, "'sliding_window' is 128"},
      {R"({"sliding_window":-1})", kBad, "'sliding_window' must be"},
      {R"({"layer_types":["full_attention"]})", kBad,
       "'layer_types' must be an array of 'num_hidden_layers' = 2 strings"},
      {R"({"layer_types":["full_attention","sliding_attention"]})", kNo,
       "'layer_types' has \"sliding_attention\""},
      {R"({"quantization_config":{"quant_method":"gptq"}})", kNo,
       "'quantization_config' (\"gptq\")"},
      {R"({"bos_token_id":300})", kBad,
       "'bos_token_id' must be an integer from 0 to 299, found 300"},
      {R"({"bos_token_id":-1})", kBad, "'bos_token_id' must be"},
      {R"({"eos_token_id":128001})", kBad, "'eos_token_id' must be a token id from 0 to 299"},
      {R"({"eos_token_id":[1,-1]})", kBad, "'eos_token_id' must be"},
      {R"({"eos_token_id":[[1]]})", kBad, "'eos_token_id' must be"},
      {R"({"eos_token_id":1.0})", kBad, "'eos_token_id' must be"},
      {R"({"tie_word_embeddings":1})", kBad,
       "'tie_word_embeddings' must be true or false, found 1"},
      {R"({"attention_bias":"yes"})", kBad, "'attention_bias' must be true or false"},
      {R"({"mlp_bias":0})", kBad, "'mlp_bias' must be true or false"},
      {R"({"torch_dtype":16})", kBad, "'torch_dtype' must be a string"},
  };
  EXPECT_GE(std::size(cases), 60u);
  for (const Case& c : cases) {
    const Result<ModelConfig> config = ParseHf(c.changes);
    ASSERT_FALSE(config.ok()) << c.changes;
    EXPECT_THAT(config.status().message(), HasSubstr(c.words)) << c.changes;
    EXPECT_THAT(config.status().message(), testing::StartsWith("dir/config.json: "));
    EXPECT_EQ(config.status().code(), c.code) << c.changes;
  }
}

TEST(HfConfig, NaNIsNoJson) {
  TempDir dir;
  dir.Write("config.json", R"({"rms_norm_eps": NaN})");
  EXPECT_THAT(ReadHfConfig(dir.path()).status().message(), HasSubstr("config.json: bad JSON"));
  dir.Write("config.json", R"([])");
  EXPECT_THAT(ReadHfConfig(dir.path()).status().message(),
              HasSubstr("must hold an object, found array"));
}

TEST(HfConfig, GenerationConfigOfADirectoryIsOptionalButNotBroken) {
  TempDir dir;
  dir.Write("config.json", kTinyLlamaConfig);
  EXPECT_TRUE(ReadHfConfig(dir.path()).ok());
  dir.Write("generation_config.json", R"({"eos_token_id":[9]})");
  EXPECT_THAT(ReadHfConfig(dir.path()).value().eos_ids, ElementsAre(2, 9));
  dir.Write("generation_config.json", "{");
  EXPECT_THAT(ReadHfConfig(dir.path()).status().message(),
              HasSubstr("generation_config.json: bad JSON"));
}

}  // namespace
}  // namespace weft::io
