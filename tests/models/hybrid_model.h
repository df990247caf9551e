// A hybrid model small enough to be written down, for tests of its weights: layer 0 linear with two
// key heads of three value heads, layer 1 full with an output gate; three experts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "support/value_checkpoint.h"

namespace weft::models {

using support::Numbered;
using support::OpenValues;
using support::OpenValuesGguf;
using support::ParamShapes;
using support::ParamsOfConfig;
using support::SparseCheckpoint;
using support::ValueTensor;

inline constexpr int64_t kHidden = 8, kHeads = 2, kHeadDim = 4, kKeyHeads = 2, kValueHeads = 6,
                         kKeyDim = 2, kValueDim = 2, kTaps = 4, kExperts = 3, kWidth = 5,
                         kShared = 3, kVocab = 7;
inline constexpr int64_t kKeys = kKeyHeads * kKeyDim, kValues = kValueHeads * kValueDim,
                         kRatio = kValueHeads / kKeyHeads;

inline std::string Config(std::string_view architecture, std::string_view more = "") {
  return fmt::format(
      R"({{"architectures": ["{}"], "hidden_size": {}, "intermediate_size": {}, "num_hidden_layers": 2,
          "num_attention_heads": {}, "num_key_value_heads": 1, "head_dim": {}, "vocab_size": {},
          "max_position_embeddings": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
          "num_experts": {}, "num_experts_per_tok": 2, "moe_intermediate_size": {}, "shared_expert_intermediate_size": {},
          "linear_num_key_heads": {}, "linear_num_value_heads": {}, "linear_key_head_dim": {},
          "linear_value_head_dim": {}, "linear_conv_kernel_dim": {}, "full_attention_interval": 2{}}})",
      architecture, kHidden, kWidth, kHeads, kHeadDim, kVocab, kExperts, kWidth, kShared, kKeyHeads,
      kValueHeads, kKeyDim, kValueDim, kTaps, more);
}

inline constexpr std::string_view kNext = "Qwen3NextForCausalLM", kMoe35 = "Qwen3_5MoeForCausalLM";

// A file with one tensor, for a look at one param.
inline SparseCheckpoint With(std::string_view architecture, ValueTensor tensor) {
  return OpenValues(Config(architecture), {std::move(tensor)});
}

inline WeightSource Found(const SparseCheckpoint& checkpoint, const std::string& param) {
  auto source = FindWeight(*checkpoint, param);
  EXPECT_TRUE(source.ok()) << source.status().message();
  return source.ok() ? std::move(source).value() : WeightSource{};
}

// The rows of a Numbered tensor that a param is made of.
inline std::vector<int64_t> RowsOf(const WeightSource& source) {
  std::vector<int64_t> rows;
  if (source.tensors.empty()) return rows;
  const int64_t columns = source.shape.size() > 1 ? source.shape.back() : 1;
  const std::vector<float> values = source.Values();
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(columns))
    rows.push_back(static_cast<int64_t>(values[i]));
  return rows;
}

using Rows = std::vector<int64_t>;
using Shape = std::vector<int64_t>;

}  // namespace weft::models
