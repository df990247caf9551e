// Small model files for tests, built byte by byte so that any of them can be made wrong.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_types.h"
#include "io/model_config.h"
#include "tensor/dtype.h"

namespace weft::io {

// The two kinds of layers of a hybrid, as expectations list them.
inline constexpr LayerKind kLinear = LayerKind::kLinearAttention, kFull = LayerKind::kFullAttention;

// A directory that goes away with the test.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_io_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file, with the directories above it, and gives its path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }

 private:
  std::string path_;
};

inline std::span<const std::byte> BytesOfText(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Numbers and strings as GGUF writes them.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ByteWriter& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  ByteWriter& Text(std::string_view text) { return Put<uint64_t>(text.size()).Raw(text); }
  ByteWriter& Pad(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_ += '\0';
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A GGUF file. Every setter may be given nonsense; Build() never complains.
class GgufWriter {
 public:
  GgufWriter& U32(std::string_view key, uint32_t value) {
    return Pair(key, 4, ByteWriter().Put(value).bytes());
  }
  GgufWriter& F32(std::string_view key, float value) {
    return Pair(key, 6, ByteWriter().Put(value).bytes());
  }
  GgufWriter& Bool(std::string_view key, bool value) {
    return Pair(key, 7, ByteWriter().Put<uint8_t>(value).bytes());
  }
  GgufWriter& String(std::string_view key, std::string_view value) {
    return Pair(key, 8, ByteWriter().Text(value).bytes());
  }
  GgufWriter& Strings(std::string_view key, const std::vector<std::string>& values) {
    ByteWriter body;
    body.Put<uint32_t>(8).Put<uint64_t>(values.size());
    for (const std::string& value : values) body.Text(value);
    return Pair(key, 9, body.bytes());
  }
  GgufWriter& I32s(std::string_view key, const std::vector<int32_t>& values) {
    ByteWriter body;
    body.Put<uint32_t>(5).Put<uint64_t>(values.size());
    for (const int32_t value : values) body.Put(value);
    return Pair(key, 9, body.bytes());
  }
  // A pair of any type with any body.
  GgufWriter& Pair(std::string_view key, uint32_t type, std::string_view body) {
    pairs_.Text(key).Put(type).Raw(body);
    ++pair_count_;
    return *this;
  }
  // A whole tensor; `shape` outermost first, data filled with a pattern.
  GgufWriter& Tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape) {
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    Describe(name, {shape.rbegin(), shape.rend()}, GgufTypeOf(dtype), data_.bytes().size());
    for (int64_t i = 0; i < BytesOf(dtype, elements); ++i)
      data_.Put(static_cast<uint8_t>(i * 7 + 1));
    data_.Pad(alignment_);
    return *this;
  }
  // A description alone; `ne` fastest first, as in the file.
  GgufWriter& Describe(std::string_view name, const std::vector<int64_t>& ne, uint32_t type,
                       uint64_t offset) {
    infos_.Text(name).Put<uint32_t>(static_cast<uint32_t>(ne.size()));
    for (const int64_t dim : ne) infos_.Put(dim);
    infos_.Put(type).Put(offset);
    ++tensor_count_;
    return *this;
  }
  GgufWriter& RawInfo(std::string_view bytes) {
    infos_.Raw(bytes);
    ++tensor_count_;
    return *this;
  }
  GgufWriter& Data(std::string_view bytes) {
    data_.Raw(bytes);
    return *this;
  }
  GgufWriter& Version(uint32_t version) {
    version_ = version;
    return *this;
  }
  GgufWriter& Magic(std::string magic) {
    magic_ = std::move(magic);
    return *this;
  }
  GgufWriter& Alignment(size_t alignment) {
    alignment_ = alignment;
    return *this;
  }
  GgufWriter& TensorCount(int64_t count) {
    tensor_count_ = count;
    return *this;
  }
  GgufWriter& PairCount(int64_t count) {
    pair_count_ = count;
    return *this;
  }

  std::string Build() const {
    ByteWriter file;
    file.Raw(magic_).Put(version_).Put(tensor_count_).Put(pair_count_);
    file.Raw(pairs_.bytes()).Raw(infos_.bytes()).Pad(alignment_).Raw(data_.bytes());
    return file.bytes();
  }

 private:
  std::string magic_ = "GGUF";
  uint32_t version_ = 3;
  size_t alignment_ = 32;
  int64_t tensor_count_ = 0;
  int64_t pair_count_ = 0;
  ByteWriter pairs_, infos_, data_;
};

// A safetensors file of a header and `buffer_bytes` bytes.
inline std::string SafetensorsFile(std::string_view header, size_t buffer_bytes) {
  ByteWriter file;
  file.Text(header);
  for (size_t i = 0; i < buffer_bytes; ++i) file.Put(static_cast<uint8_t>(i * 5 + 3));
  return file.bytes();
}

// Metadata and embedding of a tiny llama that ParseGgufConfig accepts.
inline GgufWriter TinyLlamaGguf() {
  GgufWriter w;
  w.String("general.architecture", "llama")
      .U32("llama.block_count", 2)
      .U32("llama.context_length", 256)
      .U32("llama.embedding_length", 64)
      .U32("llama.feed_forward_length", 128)
      .U32("llama.attention.head_count", 4)
      .U32("llama.attention.head_count_kv", 2)
      .U32("llama.attention.key_length", 32)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .F32("llama.rope.freq_base", 100000.0f)
      .U32("tokenizer.ggml.bos_token_id", 1)
      .U32("tokenizer.ggml.eos_token_id", 2)
      .Strings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e"})
      .Tensor("token_embd.weight", DType::kQ8_0, {5, 64})
      .Tensor("output_norm.weight", DType::kF32, {64});
  return w;
}

// config.json of a tiny llama.
inline constexpr std::string_view kTinyLlamaConfig = R"({
  "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 300, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": null, "bos_token_id": 1,
  "eos_token_id": 2, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})";

}  // namespace weft::io
