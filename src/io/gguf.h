// GGUF, versions 2 and 3: typed metadata and tensors, checked in full before anything is used.
// Format: the public GGUF description; every count is compared with the bytes that remain before
// room is made for it, and all size arithmetic says when it overflows.
// Thread: immutable after Parse.
// Invariant: strings and tensor data look into the bytes given to Parse, which must outlive it.
// Errors: kInvalid for a damaged file; kUnsupported for a sound one that we cannot read (version 1,
// the other endianness, a tensor type without a kernel).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "io/tensor.h"

namespace weft::io {

using GgufArray = std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>,
                               std::vector<int16_t>, std::vector<uint32_t>, std::vector<int32_t>,
                               std::vector<float>, std::vector<bool>, std::vector<std::string_view>,
                               std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>;

class GgufValue {
 public:
  // In the order of the file's type numbers.
  using Any = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                           std::string_view, GgufArray, uint64_t, int64_t, double>;

  explicit GgufValue(Any value) : value_(std::move(value)) {}

  const Any& any() const { return value_; }
  // "u32", "string", "array of i32", ...
  std::string type_name() const;

  // Nothing if the value is of another kind. Integers of any width are integers (unless above
  // int64), AsDouble takes integers and floats.
  std::optional<int64_t> AsInt() const;
  std::optional<double> AsDouble() const;
  std::optional<bool> AsBool() const;
  std::optional<std::string_view> AsString() const;
  std::optional<std::vector<int64_t>> AsInts() const;  // an array of any integer type
  const std::vector<std::string_view>* AsStrings() const;
  const std::vector<float>* AsFloats() const;
  const GgufArray* AsArray() const { return std::get_if<GgufArray>(&value_); }
  // The number of elements of an array, else 1.
  size_t size() const;

 private:
  Any value_;
};

class Gguf {
 public:
  // `name` is what messages call the file.
  static Result<Gguf> Parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  // In the order of the file.
  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }
  // The value of a key, or nullptr.
  const GgufValue* Find(std::string_view key) const;

 private:
  friend class GgufParser;
  Gguf() = default;

  std::string name_;
  uint32_t version_ = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::unordered_map<std::string_view, size_t> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace weft::io
