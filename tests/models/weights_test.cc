// Where a param's bits lie in a file, and what rope's frequencies become.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <set>

#include "support/model_graphs.h"

namespace weft::models {
namespace {

using support::DecoderSpec;
using support::SparseCheckpoint;
using support::TensorSpec;

SparseCheckpoint Gguf(const DecoderSpec& spec) {
  return support::OpenSparseGguf(support::GgufMetadata(spec),
                                 support::GgufTensors(spec, spec.dtype));
}

std::set<std::string> ParamsOf(const io::Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const graph::Graph& g : {support::BodyOf(checkpoint), support::HeadOf(checkpoint)}) {
    for (const graph::Value& v : g.values) {
      if (v.kind == graph::ValueKind::kParam) names.insert(v.name);
    }
  }
  return names;
}

TEST(FindWeight, BothFormatsHaveAllParamsOfAModelUnderTheirOwnNames) {
  const SparseCheckpoint hf = support::OpenSparse(DecoderSpec{}), gguf = Gguf({});
  const std::set<std::string> names = ParamsOf(*hf);
  EXPECT_EQ(names, ParamsOf(*gguf)) << "a graph is called the same whatever the file";
  EXPECT_EQ(names.size(), (*hf).tensors().size());
  std::set<std::string> in_gguf;
  for (const std::string& name : names) {
    EXPECT_EQ(FindWeight(*hf, name)->tensor().name, name);
    in_gguf.insert(FindWeight(*gguf, name)->tensor().name);
  }
  EXPECT_EQ(in_gguf.size(), names.size()) << "no two params are one tensor";
  EXPECT_EQ(FindWeight(*gguf, "model.layers.1.mlp.down_proj.weight")->tensor().name,
            "blk.1.ffn_down.weight");
  EXPECT_EQ(FindWeight(*gguf, "model.layers.1.post_attention_layernorm.weight")->tensor().name,
            "blk.1.ffn_norm.weight");
}

TEST(FindWeight, SaysTheNameThatTheFileShouldHave) {
  const SparseCheckpoint hf = support::OpenSparse(DecoderSpec{}), gguf = Gguf({});
  EXPECT_EQ(FindWeight(*hf, "lm_head.weight").status().message(),
            hf.folder->path() + ": tensor 'lm_head.weight' is missing");
  const std::string file = (*gguf).path();
  EXPECT_EQ(FindWeight(*gguf, "lm_head.weight").status().message(),
            file + ": tensor 'output.weight' is missing");
  EXPECT_EQ(FindWeight(*gguf, "model.layers.7.self_attn.q_norm.weight").status().message(),
            file + ": tensor 'blk.7.attn_q_norm.weight' is missing");
  for (const char* unknown :
       {"model.layers.0.mixer.weight", "model.layers.0", "visual.patch_embed.weight"}) {
    EXPECT_EQ(FindWeight(*gguf, unknown).status().message(),
              file + ": tensor '" + unknown + "' is missing");
  }
}

TEST(FindWeight, RowsOfQAndKOfALlamaGgufAreInPairs) {
  const SparseCheckpoint hf = support::OpenSparse(DecoderSpec{}), gguf = Gguf({});
  for (const std::string& name : ParamsOf(*hf)) {
    EXPECT_EQ(FindWeight(*hf, name)->order.kind, HeadOrder::Kind::kAsIs);
    const bool turned =
        name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
    EXPECT_EQ(FindWeight(*gguf, name)->order.kind,
              turned ? HeadOrder::Kind::kRopePairs : HeadOrder::Kind::kAsIs)
        << name;
  }
}

TEST(CheckAllUsed, RefusesEveryTensorThatNoGraphReads) {
  const DecoderSpec spec;
  for (const TensorSpec& extra :
       {TensorSpec{"model.layers.0.self_attn.q_proj.bias", DType::kBF16, {64}},
        TensorSpec{"model.layers.1.self_attn.q_norm.weight", DType::kBF16, {16}},
        TensorSpec{"model.layers.2.input_layernorm.weight", DType::kBF16, {64}},
        TensorSpec{"model.layers.0.mlp.experts.0.up_proj.weight", DType::kBF16, {96, 64}}}) {
    std::vector<TensorSpec> tensors = spec.Tensors();
    tensors.push_back(extra);
    const SparseCheckpoint checkpoint = support::OpenSparse(spec.Config(), tensors);
    EXPECT_EQ(
        support::Refusal(*checkpoint),
        fmt::format("{}: tensor '{}' [{}] is no part of a llama model with this configuration",
                    checkpoint.folder->path(), extra.name, fmt::join(extra.shape, ", ")));
  }
}

TEST(CheckAllUsed, TakesWhatChangesNothing) {
  DecoderSpec spec;
  std::vector<TensorSpec> tensors = spec.Tensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {8}});
  tensors.push_back({"lm_head.weight", DType::kBF16, {100, 64}});
  EXPECT_EQ(support::Refusal(*support::OpenSparse(spec.Config(), tensors)), "");
  spec.tied = false;
  EXPECT_EQ(support::Refusal(*support::OpenSparse(spec.Config(), tensors)), "") << "now it is read";
}

// The frequencies of one head at theta 10,000.
std::vector<double> Plain(int count = 8) {
  std::vector<double> f;
  for (int i = 0; i < count; ++i) f.push_back(std::pow(10000.0, -i / static_cast<double>(count)));
  return f;
}

std::vector<double> Scaled(std::string rope_scaling, int count = 8) {
  DecoderSpec spec;
  spec.more_config = R"(, "rope_scaling": )" + std::move(rope_scaling);
  auto f = ScaleRopeFrequencies(*support::OpenSparse(spec), Plain(count));
  EXPECT_TRUE(f.ok()) << f.status().message();
  return *f;
}

TEST(RopeFrequencies, StayWithoutScalingAndAreDividedByALinearFactor) {
  EXPECT_EQ(Scaled("null"), Plain());
  const std::vector<double> f = Plain(), half = Scaled(R"({"rope_type": "linear", "factor": 2.0})");
  for (size_t i = 0; i < f.size(); ++i) EXPECT_EQ(half[i], f[i] / 2);
}

TEST(RopeFrequencies, OfLlama3KeepShortWavesAndStretchLongOnes) {
  const std::vector<double> f = Plain(64);
  const std::vector<double> scaled = Scaled(
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 256})",
      64);
  // Waves up to 256 / 4 tokens stay, beyond 256 / 1 they are stretched 8 times; between them the
  // share that stays falls from 1 to 0 as 256 / wave falls from 4 to 1.
  int kept = 0, blended = 0, stretched = 0;
  for (size_t i = 0; i < f.size(); ++i) {
    const double wave = 2 * std::numbers::pi / f[i];
    if (wave < 64) {
      ++kept;
      EXPECT_EQ(scaled[i], f[i]);
    } else if (wave > 256) {
      ++stretched;
      EXPECT_EQ(scaled[i], f[i] / 8);
    } else {
      ++blended;
      const double stays = (256 / wave - 1) / 3;
      EXPECT_DOUBLE_EQ(scaled[i], f[i] * (stays + (1 - stays) / 8));
    }
  }
  EXPECT_GT(kept, 5);
  EXPECT_GT(blended, 5);
  EXPECT_GT(stretched, 5);
}

// A GGUF llama 3: its factors are a tensor with data.
SparseCheckpoint WithFactors(DType dtype, const std::vector<float>& factors) {
  const DecoderSpec spec{.layers = 1};
  std::vector<TensorSpec> tensors = support::GgufTensors(spec, spec.dtype);
  tensors.insert(tensors.begin(),
                 {"rope_freqs.weight", dtype, {static_cast<int64_t>(factors.size())}});
  io::GgufWriter writer = support::GgufMetadata(spec);
  std::string bytes(factors.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), factors.data(), bytes.size());
  writer.Data(bytes);  // the first tensor's; the hole behind it is the others'
  return support::OpenSparseGguf(writer, tensors);
}

TEST(RopeFrequencies, AreDividedByTheFactorsOfTheFile) {
  const std::vector<float> factors{1, 1, 1, 2, 2.5f, 4, 8, 8};
  const SparseCheckpoint checkpoint = WithFactors(DType::kF32, factors);
  auto f = ScaleRopeFrequencies(*checkpoint, Plain());
  ASSERT_TRUE(f.ok()) << f.status().message();
  for (size_t i = 0; i < factors.size(); ++i)
    EXPECT_EQ((*f)[i], Plain()[i] / static_cast<double>(factors[i]));
  EXPECT_EQ(support::Refusal(*checkpoint), "") << "no graph reads it, and it is no stranger";
}

TEST(RopeFrequencies, RefuseFactorsOfAnotherKind) {
  EXPECT_NE(ScaleRopeFrequencies(*WithFactors(DType::kF32, {1, 1, 1, 1}), Plain())
                .status()
                .message()
                .find("'rope_freqs.weight' must be float32 [8]"),
            std::string::npos);
  EXPECT_NE(ScaleRopeFrequencies(*WithFactors(DType::kF16, {1, 1, 1, 1, 1, 1, 1, 1}), Plain())
                .status()
                .message()
                .find("'rope_freqs.weight' must be float32 [8]"),
            std::string::npos);
  for (const float bad : {0.0f, -1.0f, std::nanf("")}) {
    EXPECT_NE(ScaleRopeFrequencies(*WithFactors(DType::kF32, {1, 1, bad, 1, 1, 1, 1, 1}), Plain())
                  .status()
                  .message()
                  .find("'rope_freqs.weight'[2]"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace weft::models
