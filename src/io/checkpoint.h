// A model's weights and configuration, whichever format they come in.
// Opening reads headers and maps files; no weight is touched. Tensor names stay as the file has
// them: what a layer calls them is the business of models/.
// Thread: immutable after Open; DropPages from any thread.
// Invariant: every Tensor's data stay valid as long as the Checkpoint.
// Errors: of the readers, each naming its file; kNotFound for a missing file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "io/gguf.h"
#include "io/mapping.h"
#include "io/model_config.h"
#include "io/tensor.h"

namespace weft::io {

enum class Format { kGguf, kSafetensors };

class Checkpoint {
 public:
  // A directory with config.json and model.safetensors (or its index), or a .gguf file (of a split
  // one the first, -00001-of-0000N.gguf).
  static Result<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // The tensor of that name, or nullptr.
  const Tensor* Find(std::string_view name) const;
  std::span<const Tensor> tensors() const { return tensors_; }
  const ModelConfig& config() const { return config_; }
  Format format() const { return gguf_.empty() ? Format::kSafetensors : Format::kGguf; }
  const std::string& path() const { return path_; }
  // The (first) file's metadata, for the tokenizer; nullptr if the format is another.
  const Gguf* gguf() const { return gguf_.empty() ? nullptr : &gguf_.front(); }

  // Gives back the memory that reading a tensor, or a part of one, has filled, once it is repacked.
  void DropPages(const Tensor& tensor) const { DropPages(tensor.data, tensor.bytes); }
  void DropPages(const std::byte* data, int64_t bytes) const;

 private:
  Checkpoint() = default;
  Status OpenGguf();
  Status OpenGgufParts(const std::string& stem, int count);
  Status OpenSafetensors();
  Status OpenIndexed(const std::string& index_path);
  Status AddTensors(std::span<const Tensor> tensors);

  std::string path_;
  std::vector<Mapping> mappings_;
  std::vector<Gguf> gguf_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, size_t> names_;
  ModelConfig config_;
};

}  // namespace weft::io
