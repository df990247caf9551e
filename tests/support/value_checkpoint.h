// Checkpoints whose every element says where it lies, for tests of what is read from where; and the
// params that a configuration has, by name and shape.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/sparse_checkpoint.h"
#include "tensor/quant_format.h"

namespace weft::support {

struct ValueTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<float> values;  // row-major
};

inline int64_t ElementsOf(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

// row + column / 1024, where the rows of all leading dimensions are counted through: exact in
// float32, and enough to find the element again. A vector's elements are its rows.
inline ValueTensor Numbered(std::string name, std::vector<int64_t> shape) {
  ValueTensor t{std::move(name), DType::kF32, std::move(shape), {}};
  const int64_t columns = t.shape.size() > 1 ? t.shape.back() : 1;
  for (int64_t i = 0; i < ElementsOf(t.shape); ++i) {
    t.values.push_back(static_cast<float>(i / columns) + static_cast<float>(i % columns) / 1024);
  }
  return t;
}

inline std::string BytesOfValues(const ValueTensor& t) {
  std::string bytes(static_cast<size_t>(BytesOf(t.dtype, ElementsOf(t.shape))), '\0');
  if (t.dtype == DType::kF32) {
    std::copy_n(reinterpret_cast<const char*>(t.values.data()), bytes.size(), bytes.data());
  } else {
    QuantiseRow(t.dtype, t.values.data(), ElementsOf(t.shape), bytes.data());
  }
  return bytes;
}

inline SparseCheckpoint OpenValues(const std::string& config,
                                   const std::vector<ValueTensor>& tensors) {
  std::string header = "{", data;
  for (const ValueTensor& t : tensors) {
    WEFT_CHECK(t.dtype == DType::kF32, "'{}': values of a safetensors file are float32", t.name);
    const size_t begin = data.size();
    data += BytesOfValues(t);
    header +=
        fmt::format(R"({}"{}": {{"dtype": "F32", "shape": [{}], "data_offsets": [{}, {}]}})",
                    begin == 0 ? "" : ", ", t.name, fmt::join(t.shape, ", "), begin, data.size());
  }
  SparseCheckpoint made{std::make_unique<io::TempDir>(), nullptr};
  made.folder->Write("config.json", config);
  made.folder->Write("model.safetensors", io::ByteWriter().Text(header + "}").Raw(data).bytes());
  auto opened = io::Checkpoint::Open(made.folder->path());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (opened.ok()) made.file = std::move(opened).value();
  return made;
}

inline SparseCheckpoint OpenValuesGguf(io::GgufWriter writer,
                                       const std::vector<ValueTensor>& tensors) {
  io::ByteWriter data;
  for (const ValueTensor& t : tensors) {
    writer.Describe(t.name, {t.shape.rbegin(), t.shape.rend()}, io::GgufTypeOf(t.dtype),
                    data.bytes().size());
    data.Raw(BytesOfValues(t)).Pad(32);
  }
  writer.Data(data.bytes());
  SparseCheckpoint made{std::make_unique<io::TempDir>(), nullptr};
  auto opened = io::Checkpoint::Open(made.folder->Write("model.gguf", writer.Build()));
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (opened.ok()) made.file = std::move(opened).value();
  return made;
}

using ParamShapes = std::map<std::string, std::vector<int64_t>>;

inline void AddMlp(const std::string& prefix, int64_t hidden, int64_t width, ParamShapes* params) {
  (*params)[prefix + "gate_proj.weight"] = {width, hidden};
  (*params)[prefix + "up_proj.weight"] = {width, hidden};
  (*params)[prefix + "down_proj.weight"] = {hidden, width};
}

inline void AddLayer(const io::ModelConfig& c, const std::string& prefix, io::LayerKind kind,
                     bool moe, ParamShapes* params) {
  const int64_t h = c.hidden_size;
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    (*params)[prefix + name] = std::move(shape);
  };
  add("input_layernorm.weight", {h});
  add("post_attention_layernorm.weight", {h});
  if (kind == io::LayerKind::kFullAttention) {
    const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    add("self_attn.q_proj.weight", {q, h});
    if (c.attn_output_gate) add("self_attn.q_gate.weight", {q, h});
    add("self_attn.k_proj.weight", {kv, h});
    add("self_attn.v_proj.weight", {kv, h});
    add("self_attn.o_proj.weight", {h, q});
    add("self_attn.q_norm.weight", {c.head_dim});
    add("self_attn.k_norm.weight", {c.head_dim});
  } else {
    const int64_t keys = c.linear.key_width(), values = c.linear.value_width(),
                  taps = c.linear.conv_kernel;
    add("linear_attn.in_proj_q.weight", {keys, h});
    add("linear_attn.in_proj_k.weight", {keys, h});
    add("linear_attn.in_proj_v.weight", {values, h});
    add("linear_attn.in_proj_z.weight", {values, h});
    add("linear_attn.in_proj_b.weight", {c.linear.value_heads, h});
    add("linear_attn.in_proj_a.weight", {c.linear.value_heads, h});
    add("linear_attn.conv1d_q.weight", {keys, taps});
    add("linear_attn.conv1d_k.weight", {keys, taps});
    add("linear_attn.conv1d_v.weight", {values, taps});
    add("linear_attn.A_log", {c.linear.value_heads});
    add("linear_attn.dt_bias", {c.linear.value_heads});
    add("linear_attn.norm.weight", {c.linear.value_dim});
    add("linear_attn.out_proj.weight", {h, values});
  }
  if (!moe) return AddMlp(prefix + "mlp.", h, c.intermediate_size, params);
  add("mlp.gate.weight", {c.experts, h});
  add("mlp.experts.gate_proj.weight", {c.experts, c.moe_intermediate_size, h});
  add("mlp.experts.up_proj.weight", {c.experts, c.moe_intermediate_size, h});
  add("mlp.experts.down_proj.weight", {c.experts, h, c.moe_intermediate_size});
  if (c.shared_expert_intermediate_size == 0) return;
  AddMlp(prefix + "mlp.shared_expert.", h, c.shared_expert_intermediate_size, params);
  add("mlp.shared_expert_gate.weight", {1, h});
}

// The params of a model with norms on q and k, the draft head's if `draft`.
inline ParamShapes ParamsOfConfig(const io::ModelConfig& c, bool draft) {
  const int64_t h = c.hidden_size;
  ParamShapes params{{"model.embed_tokens.weight", {c.vocab_size, h}}, {"model.norm.weight", {h}}};
  if (!c.tie_word_embeddings) params["lm_head.weight"] = {c.vocab_size, h};
  for (int64_t i = 0; i < c.layers; ++i)
    AddLayer(c, fmt::format("model.layers.{}.", i), c.KindOf(i), c.IsMoe(i), &params);
  if (!draft) return params;
  params["mtp.fc.weight"] = {h, 2 * h};
  for (const char* name :
       {"mtp.norm.weight", "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight"})
    params[name] = {h};
  AddLayer(c, "mtp.layers.0.", io::LayerKind::kFullAttention, c.experts > 0, &params);
  return params;
}

}  // namespace weft::support
