#include "io/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<ModelConfig> Parse(const GgufWriter& writer) {
  const std::string file = writer.Build();
  const Result<Gguf> gguf = Gguf::Parse(BytesOfText(file), "x.gguf");
  if (!gguf.ok()) return gguf.status();
  return ParseGgufConfig(gguf.value(), gguf.value().tensors());
}

// The keys of TinyLlamaGguf, each of which a test may leave out or replace.
struct Keys {
  std::string architecture = "llama";
  std::vector<std::string> without;
  std::function<void(GgufWriter&)> with = [](GgufWriter&) {};

  Result<ModelConfig> Read() const {
    GgufWriter w;
    const auto keep = [&](std::string_view key) {
      return std::find(without.begin(), without.end(), key) == without.end();
    };
    const auto u32 = [&](const std::string& key, uint32_t value) {
      if (keep(key)) w.U32(architecture + "." + key, value);
    };
    if (keep("architecture")) w.String("general.architecture", architecture);
    u32("block_count", 2);
    u32("context_length", 256);
    u32("embedding_length", 64);
    u32("feed_forward_length", 128);
    u32("attention.head_count", 4);
    u32("attention.head_count_kv", 2);
    u32("attention.key_length", 32);
    if (keep("eps")) w.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
    if (keep("theta")) w.F32(architecture + ".rope.freq_base", 100000.0f);
    if (keep("eos")) w.U32("tokenizer.ggml.eos_token_id", 2);
    if (keep("tokens")) w.Strings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e"});
    with(w);
    if (keep("embedding")) w.Tensor("token_embd.weight", DType::kQ8_0, {5, 64});
    return Parse(w);
  }
};

TEST(GgufConfig, ReadsALlama) {
  const Result<ModelConfig> config = Parse(TinyLlamaGguf());
  ASSERT_TRUE(config.ok()) << config.status().message();
  const ModelConfig& c = config.value();
  EXPECT_EQ(c.family, "llama");
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.intermediate_size, 128);
  EXPECT_EQ(c.vocab_size, 5);
  EXPECT_EQ(c.max_position, 256);
  EXPECT_EQ(c.rms_norm_eps_float(), 1e-5f) << "the same float as from config.json";
  EXPECT_EQ(c.rope.theta, 100000.0);
  EXPECT_EQ(c.rope.dims, 32);
  EXPECT_EQ(c.rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_EQ(c.bos_id, 1);
  EXPECT_THAT(c.eos_ids, ElementsAre(2));
}

TEST(GgufConfig, ReadsOffTheTensorsWhatHasNoKey) {
  GgufWriter w = TinyLlamaGguf();
  w.Tensor("output.weight", DType::kF16, {5, 64})
      .Tensor("rope_freqs.weight", DType::kF32, {16})
      .Tensor("blk.0.attn_q.bias", DType::kF32, {128})
      .Tensor("blk.0.ffn_up.bias", DType::kF32, {128});
  const ModelConfig c = Parse(w).value();
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_EQ(c.rope.scaling, RopeScaling::kFactorsTensor);
  EXPECT_TRUE(c.attention_bias);
  EXPECT_FALSE(c.attention_output_bias);
  EXPECT_TRUE(c.mlp_bias);
}

TEST(GgufConfig, OtherFamiliesHaveTheirOwnPrefix) {
  for (const std::string family : {"qwen2", "qwen3"}) {
    const auto config = Keys{.architecture = family}.Read();
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config.value().family, family);
  }
}

TEST(GgufConfig, DefaultsAreThoseOfTheFormat) {
  const auto config = Keys{
      .without = {
          "attention.key_length", "attention.head_count_kv", "theta", "eos",
          "embedding"}}.Read();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config.value().head_dim, 16);
  EXPECT_EQ(config.value().kv_heads, 4);
  EXPECT_EQ(config.value().rope.theta, 10000.0);
  EXPECT_THAT(config.value().notes, ElementsAre(HasSubstr("llama.rope.freq_base")));
}

TEST(GgufConfig, HeadsPerLayerMustAgree) {
  const auto with = [](std::vector<int32_t> heads) {
    return Keys{.without = {"attention.head_count_kv"},
                .with = [=](GgufWriter& w) { w.I32s("llama.attention.head_count_kv", heads); }}
        .Read();
  };
  EXPECT_EQ(with({2, 2}).value().kv_heads, 2);
  EXPECT_EQ(with({2, 4}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(with({}).status().code(), StatusCode::kInvalid);
  EXPECT_EQ(with({-2, -2}).status().code(), StatusCode::kInvalid);
}

TEST(GgufConfig, LinearRopeInBothSpellings) {
  const auto with = [](std::function<void(GgufWriter&)> f) {
    return Keys{.with = std::move(f)}.Read();
  };
  const auto typed = with([](GgufWriter& w) {
    w.String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 4);
  });
  EXPECT_EQ(typed.value().rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(typed.value().rope.factor, 4.0);
  const auto old = with([](GgufWriter& w) { w.F32("llama.rope.scale_linear", 2); });
  EXPECT_EQ(old.value().rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(old.value().rope.factor, 2.0);
  const auto none = with([](GgufWriter& w) { w.String("llama.rope.scaling.type", "none"); });
  EXPECT_EQ(none.value().rope.scaling, RopeScaling::kNone);
}

TEST(GgufConfig, SamplingAndTurnEndAreTaken) {
  const ModelConfig c = Keys{.with =
                                 [](GgufWriter& w) {
                                   w.U32("tokenizer.ggml.eot_token_id", 4)
                                       .F32("general.sampling.temp", 0.5f)
                                       .U32("general.sampling.top_k", 7);
                                 }}
                            .Read()
                            .value();
  EXPECT_THAT(c.eos_ids, ElementsAre(2, 4));
  EXPECT_EQ(c.sampling.temperature, 0.5);
  EXPECT_EQ(c.sampling.top_k, 7);
}

TEST(GgufConfig, TokensCountMoreThanTheKey) {
  const auto config = Keys{.with = [](GgufWriter& w) { w.U32("llama.vocab_size", 9); }}.Read();
  EXPECT_EQ(config.value().vocab_size, 5);
  EXPECT_THAT(config.value().notes,
              ElementsAre(HasSubstr("'llama.vocab_size' is 9, but there are 5 tokens")));
}

TEST(GgufConfig, RefusesEachInconsistentFileNamingKeyAndValue) {
  constexpr StatusCode kBad = StatusCode::kInvalid;
  constexpr StatusCode kNo = StatusCode::kUnsupported;
  struct Case {
    Keys keys;
    StatusCode code;
    const char* words;
  };
  const auto missing = [](const char* key) { return Keys{.without = {key}}; };
  // One key left out and another value put in its place.
  const auto instead = [](const char* key, uint32_t value) {
    return Keys{.without = {key},
                .with = [=](GgufWriter& w) { w.U32(std::string("llama.") + key, value); }};
  };
  const auto with = [](std::function<void(GgufWriter&)> f) { return Keys{.with = std::move(f)}; };
  const Case cases[] = {
      {missing("architecture"), kBad, "'general.architecture' is missing"},
      {{.architecture = "mamba"}, kNo, "'general.architecture' is 'mamba'"},
      {missing("block_count"), kBad, "'llama.block_count' is missing"},
      {instead("block_count", 0), kBad,
       "'llama.block_count' must be an integer from 1 to 4096, found 0"},
      {instead("block_count", 0x80000000u), kBad, "found 2147483648"},
      {missing("embedding_length"), kBad, "'llama.embedding_length' is missing"},
      {instead("embedding_length", 0), kBad, "'llama.embedding_length' must be"},
      {missing("feed_forward_length"), kBad, "'llama.feed_forward_length' is missing"},
      {missing("context_length"), kBad, "'llama.context_length' is missing"},
      {missing("attention.head_count"), kBad, "'llama.attention.head_count' is missing"},
      {instead("attention.head_count", 0), kBad, "'llama.attention.head_count' must be"},
      {instead("attention.head_count_kv", 3), kBad,
       "'llama.attention.head_count_kv' must be a divisor of 'llama.attention.head_count' = 4, "
       "found 3"},
      {instead("attention.head_count_kv", 0), kBad, "'llama.attention.head_count_kv' must be"},
      {instead("attention.key_length", 33), kBad,
       "'llama.attention.key_length' must be even, found 33"},
      {{.without = {"attention.key_length", "attention.head_count", "attention.head_count_kv"},
        .with = [](GgufWriter& w) { w.U32("llama.attention.head_count", 3); }},
       kBad,
       "'llama.embedding_length' must be a multiple of 'llama.attention.head_count' = 3"},
      {with([](GgufWriter& w) { w.U32("llama.attention.value_length", 64); }), kNo,
       "'llama.attention.value_length' is 64, but keys have 32"},
      {with([](GgufWriter& w) { w.U32("llama.rope.dimension_count", 64); }), kBad,
       "'llama.rope.dimension_count' must be even and from 2 to 'llama.attention.key_length' = 32, "
       "found 64"},
      {with([](GgufWriter& w) { w.U32("llama.rope.dimension_count", 7); }), kBad, "found 7"},
      {missing("eps"), kBad, "'llama.attention.layer_norm_rms_epsilon' is missing"},
      {{.without = {"eps"},
        .with = [](GgufWriter& w) { w.F32("llama.attention.layer_norm_rms_epsilon", NAN); }},
       kBad,
       "found nan"},
      {{.without = {"eps"},
        .with = [](GgufWriter& w) { w.F32("llama.attention.layer_norm_rms_epsilon", INFINITY); }},
       kBad,
       "found inf"},
      {{.without = {"eps"},
        .with = [](GgufWriter& w) { w.F32("llama.attention.layer_norm_rms_epsilon", 0); }},
       kBad,
       "found 0"},
      {{.without = {"eps"},
        .with = [](GgufWriter& w) { w.F32("llama.attention.layer_norm_rms_epsilon", 1e-44f); }},
       kBad,
       "must be a number above"},
      {{.without = {"theta"}, .with = [](GgufWriter& w) { w.F32("llama.rope.freq_base", -1); }},
       kBad,
       "'llama.rope.freq_base' must be"},
      {{.without = {"theta"}, .with = [](GgufWriter& w) { w.String("llama.rope.freq_base", "x"); }},
       kBad,
       "found 'x'"},
      {{.without = {"block_count"}, .with = [](GgufWriter& w) { w.F32("llama.block_count", 2); }},
       kBad,
       "'llama.block_count' must be an integer"},
      {{.without = {"block_count"},
        .with = [](GgufWriter& w) { w.Strings("llama.block_count", {"2"}); }},
       kBad,
       "found array of string [1]"},
      {{.without = {"block_count"},
        .with =
            [](GgufWriter& w) {
              w.Pair("llama.block_count", 11, ByteWriter().Put<int64_t>(-2).bytes());
            }},
       kBad,
       "found -2"},
      {{.without = {"tokens"}}, kBad, "'llama.vocab_size' is missing"},
      {{.without = {"tokens"}, .with = [](GgufWriter& w) { w.I32s("tokenizer.ggml.tokens", {1}); }},
       kBad,
       "'tokenizer.ggml.tokens' must be an array of strings, found array of i32 [1]"},
      {{.without = {"tokens"}, .with = [](GgufWriter& w) { w.U32("llama.vocab_size", 6); }},
       kBad,
       "'token_embd.weight' must be of shape [6, 64] (tokens, 'llama.embedding_length'), found [5, "
       "64]"},
      {{.without = {"eos"},
        .with = [](GgufWriter& w) { w.U32("tokenizer.ggml.eos_token_id", 128001); }},
       kBad,
       "'tokenizer.ggml.eos_token_id' must be an integer from 0 to 4, found 128001"},
      {with([](GgufWriter& w) { w.U32("tokenizer.ggml.bos_token_id", 5); }), kBad,
       "'tokenizer.ggml.bos_token_id' must be"},
      {with([](GgufWriter& w) { w.U32("llama.expert_count", 8); }), kNo,
       "'llama.expert_count' = 8"},
      {with([](GgufWriter& w) { w.F32("llama.logit_scale", 0.5f); }), kNo,
       "'llama.logit_scale' = 0.5"},
      {with([](GgufWriter& w) { w.U32("llama.attention.sliding_window", 64); }), kNo,
       "'llama.attention.sliding_window' is 64"},
      {with([](GgufWriter& w) { w.String("llama.rope.scaling.type", "yarn"); }), kNo,
       "'llama.rope.scaling.type' is 'yarn'"},
      {with([](GgufWriter& w) { w.String("llama.rope.scaling.type", "linear"); }), kBad,
       "'llama.rope.scaling.factor' is missing"},
      {with([](GgufWriter& w) { w.U32("llama.rope.scaling.type", 1); }), kBad,
       "'llama.rope.scaling.type' must be a string, found 1"},
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
