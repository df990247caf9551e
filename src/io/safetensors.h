// safetensors: a JSON header and a buffer without holes.
// Accepts what the reference reader accepts (header limit, contiguous ranges, sizes that agree) and
// refuses a repeated key besides.
// Thread: immutable after Parse.
// Invariant: tensor data look into the bytes given to Parse, which must outlive it; they need not
// be aligned for their type.
// Errors: kInvalid for a damaged file, kUnsupported for an element type that we have no kernels
// for.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/tensor.h"

namespace weft::io {

class Safetensors {
 public:
  // `name` is what messages call the file.
  static Result<Safetensors> Parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  // In the order of their data.
  std::span<const Tensor> tensors() const { return tensors_; }
  // The header's "__metadata__".
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

 private:
  friend class SafetensorsParser;
  Safetensors() = default;

  std::string name_;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace weft::io
