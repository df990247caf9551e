// Checkpoints of any size that take no space: headers as a real file has them and, behind them, a
// hole. A graph and its plans are made of names, shapes and formats; nothing here has weights worth
// reading.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/test_files.h"

namespace weft::support {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<int64_t> shape;
};

// A dense decoder as Hugging Face writes it; a test changes what it wants before it writes.
struct DecoderSpec {
  std::string architecture = "LlamaForCausalLM";
  int64_t layers = 2, hidden = 64, width = 96, heads = 4, kv_heads = 2, head_dim = 16, vocab = 100;
  DType dtype = DType::kBF16;
  bool tied = true, attention_bias = false, output_bias = false, mlp_bias = false, qk_norm = false;
  std::string more_config;  // further fields of config.json, each with a comma before it

  std::string Config() const {
    return fmt::format(
        R"({{"architectures": ["{}"], "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {},
            "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
            "head_dim": {}, "vocab_size": {}, "max_position_embeddings": 2048, "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2,
            "tie_word_embeddings": {}, "attention_bias": {}, "mlp_bias": {}{}}})",
        architecture, hidden, width, layers, heads, kv_heads, head_dim, vocab, tied, attention_bias,
        mlp_bias, more_config);
  }

  std::vector<TensorSpec> Tensors() const {
    std::vector<TensorSpec> all{{"model.embed_tokens.weight", dtype, {vocab, hidden}},
                                {"model.norm.weight", dtype, {hidden}}};
    if (!tied) all.push_back({"lm_head.weight", dtype, {vocab, hidden}});
    const int64_t q = heads * head_dim, kv = kv_heads * head_dim;
    for (int64_t i = 0; i < layers; ++i) {
      const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
        all.push_back({fmt::format("model.layers.{}.{}", i, name), dtype, std::move(shape)});
      };
      const auto linear = [&](const std::string& name, int64_t n, int64_t k, bool bias) {
        add(name + ".weight", {n, k});
        if (bias) add(name + ".bias", {n});
      };
      add("input_layernorm.weight", {hidden});
      add("post_attention_layernorm.weight", {hidden});
      linear("self_attn.q_proj", q, hidden, attention_bias);
      linear("self_attn.k_proj", kv, hidden, attention_bias);
      linear("self_attn.v_proj", kv, hidden, attention_bias);
      linear("self_attn.o_proj", hidden, q, output_bias);
      linear("mlp.gate_proj", width, hidden, mlp_bias);
      linear("mlp.up_proj", width, hidden, mlp_bias);
      linear("mlp.down_proj", hidden, width, mlp_bias);
      if (!qk_norm) continue;
      add("self_attn.q_norm.weight", {head_dim});
      add("self_attn.k_norm.weight", {head_dim});
    }
    return all;
  }
};

inline int64_t SizeOf(const TensorSpec& t) {
  int64_t elements = 1;
  for (const int64_t n : t.shape) elements *= n;
  return BytesOf(t.dtype, elements);
}

// The checkpoint and the folder that it is mapped from.
struct SparseCheckpoint {
  std::unique_ptr<io::TempDir> folder;
  std::unique_ptr<io::Checkpoint> file;
  const io::Checkpoint& operator*() const { return *file; }
};

inline SparseCheckpoint OpenSparse(const std::string& config,
                                   const std::vector<TensorSpec>& tensors) {
  std::string header = "{";
  int64_t at = 0;
  for (const TensorSpec& t : tensors) {
    const char* dtype = t.dtype == DType::kBF16  ? "BF16"
                        : t.dtype == DType::kF16 ? "F16"
                        : t.dtype == DType::kF32 ? "F32"
                                                 : "I8";
    header += fmt::format(R"({}"{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                          at == 0 ? "" : ", ", t.name, dtype, fmt::join(t.shape, ", "), at,
                          at + SizeOf(t));
    at += SizeOf(t);
  }
  header += "}";
  SparseCheckpoint made{std::make_unique<io::TempDir>(), nullptr};
  made.folder->Write("config.json", config);
  const std::string path = made.folder->Write("model.safetensors", io::SafetensorsFile(header, 0));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + static_cast<size_t>(at));
  auto opened = io::Checkpoint::Open(made.folder->path());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (opened.ok()) made.file = std::move(opened).value();
  return made;
}

inline SparseCheckpoint OpenSparse(const DecoderSpec& spec) {
  return OpenSparse(spec.Config(), spec.Tensors());
}

// A GGUF file with the metadata that `writer` has. The tensors' names are the file's own.
inline SparseCheckpoint OpenSparseGguf(io::GgufWriter writer,
                                       const std::vector<TensorSpec>& tensors) {
  constexpr int64_t kAlignment = 32;
  int64_t at = 0;
  for (const TensorSpec& t : tensors) {
    writer.Describe(t.name, {t.shape.rbegin(), t.shape.rend()}, io::GgufTypeOf(t.dtype),
                    static_cast<uint64_t>(at));
    at += (SizeOf(t) + kAlignment - 1) / kAlignment * kAlignment;
  }
  SparseCheckpoint made{std::make_unique<io::TempDir>(), nullptr};
  const std::string path = made.folder->Write("model.gguf", writer.Build());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + static_cast<size_t>(at));
  auto opened = io::Checkpoint::Open(path);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (opened.ok()) made.file = std::move(opened).value();
  return made;
}

// The tensors of a dense llama with GGUF's names.
inline std::vector<TensorSpec> GgufTensors(const DecoderSpec& spec, DType embedding) {
  const int64_t q = spec.heads * spec.head_dim, kv = spec.kv_heads * spec.head_dim;
  std::vector<TensorSpec> all{{"token_embd.weight", embedding, {spec.vocab, spec.hidden}},
                              {"output_norm.weight", DType::kF32, {spec.hidden}}};
  for (int64_t i = 0; i < spec.layers; ++i) {
    const auto add = [&](const char* name, DType dtype, std::vector<int64_t> shape) {
      all.push_back({fmt::format("blk.{}.{}.weight", i, name), dtype, std::move(shape)});
    };
    add("attn_norm", DType::kF32, {spec.hidden});
    add("attn_q", spec.dtype, {q, spec.hidden});
    add("attn_k", spec.dtype, {kv, spec.hidden});
    add("attn_v", spec.dtype, {kv, spec.hidden});
    add("attn_output", spec.dtype, {spec.hidden, q});
    add("ffn_norm", DType::kF32, {spec.hidden});
    add("ffn_gate", spec.dtype, {spec.width, spec.hidden});
    add("ffn_up", spec.dtype, {spec.width, spec.hidden});
    add("ffn_down", spec.dtype, {spec.hidden, spec.width});
  }
  return all;
}

inline io::GgufWriter GgufMetadata(const DecoderSpec& spec) {
  io::GgufWriter w;
  const auto u32 = [](int64_t n) { return static_cast<uint32_t>(n); };
  w.String("general.architecture", "llama")
      .U32("llama.block_count", u32(spec.layers))
      .U32("llama.context_length", 2048)
      .U32("llama.embedding_length", u32(spec.hidden))
      .U32("llama.feed_forward_length", u32(spec.width))
      .U32("llama.attention.head_count", u32(spec.heads))
      .U32("llama.attention.head_count_kv", u32(spec.kv_heads))
      .U32("llama.attention.key_length", u32(spec.head_dim))
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .F32("llama.rope.freq_base", 100000.0f)
      .U32("llama.vocab_size", u32(spec.vocab));
  return w;
}

}  // namespace weft::support
