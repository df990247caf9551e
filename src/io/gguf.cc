#include "io/gguf.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <unordered_set>

#include "io/bounded_cursor.h"
#include "io/checked_math.h"
#include "io/gguf_types.h"
#include "io/printable.h"

namespace weft::io {
namespace {

constexpr std::array<std::string_view, 13> kValueTypeNames{
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
constexpr uint32_t kTypeString = 8;
constexpr uint32_t kTypeArray = 9;

// A cap above what any model has, so that the bookkeeping of a hostile file stays small.
constexpr int64_t kPairsMax = 65'536;
constexpr int64_t kTensorsMax = 1 << 20;
constexpr uint64_t kKeyBytesMax = 65'535;
constexpr uint64_t kTensorNameBytesMax = 63;
constexpr uint64_t kStringBytesMax = uint64_t{1} << 30;
constexpr uint64_t kArrayElementsMax = uint64_t{1} << 30;
constexpr uint32_t kDimsMax = 4;
constexpr int64_t kAlignmentDefault = 32;
// The least that a pair and a tensor's description take in the file.
constexpr uint64_t kPairBytesMin = 8 + 1 + 4 + 1;
constexpr uint64_t kTensorBytesMin = 8 + 4 + 4 + 8;

template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <typename T>
std::optional<int64_t> ToInt64(T value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

}  // namespace

std::string GgufValue::type_name() const {
  if (const GgufArray* array = AsArray()) {
    // The array's alternatives skip the number of "array" itself.
    const size_t type = array->index() < kTypeArray ? array->index() : array->index() + 1;
    return fmt::format("array of {}", kValueTypeNames[type]);
  }
  return std::string(kValueTypeNames[value_.index()]);
}

std::optional<int64_t> GgufValue::AsInt() const {
  return std::visit(
      [](const auto& value) -> std::optional<int64_t> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (kIsInteger<T>) {
          return ToInt64(value);
        } else {
          return std::nullopt;
        }
      },
      value_);
}

std::optional<double> GgufValue::AsDouble() const {
  return std::visit(
      [](const auto& value) -> std::optional<double> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (kIsInteger<T> || std::is_floating_point_v<T>) {
          return static_cast<double>(value);
        } else {
          return std::nullopt;
        }
      },
      value_);
}

std::optional<bool> GgufValue::AsBool() const {
  const bool* value = std::get_if<bool>(&value_);
  return value == nullptr ? std::nullopt : std::optional<bool>(*value);
}

std::optional<std::string_view> GgufValue::AsString() const {
  const auto* value = std::get_if<std::string_view>(&value_);
  return value == nullptr ? std::nullopt : std::optional<std::string_view>(*value);
}

std::optional<std::vector<int64_t>> GgufValue::AsInts() const {
  const GgufArray* array = AsArray();
  if (array == nullptr) return std::nullopt;
  return std::visit(
      [](const auto& values) -> std::optional<std::vector<int64_t>> {
        using T = typename std::decay_t<decltype(values)>::value_type;
        if constexpr (kIsInteger<T>) {
          std::vector<int64_t> out;
          out.reserve(values.size());
          for (const T value : values) {
            const std::optional<int64_t> wide = ToInt64(value);
            if (!wide) return std::nullopt;
            out.push_back(*wide);
          }
          return out;
        } else {
          return std::nullopt;
        }
      },
      *array);
}

const std::vector<std::string_view>* GgufValue::AsStrings() const {
  const GgufArray* array = AsArray();
  return array == nullptr ? nullptr : std::get_if<std::vector<std::string_view>>(array);
}

const std::vector<float>* GgufValue::AsFloats() const {
  const GgufArray* array = AsArray();
  return array == nullptr ? nullptr : std::get_if<std::vector<float>>(array);
}

size_t GgufValue::size() const {
  const GgufArray* array = AsArray();
  if (array == nullptr) return 1;
  return std::visit([](const auto& values) { return values.size(); }, *array);
}

// One pass over the file, in its order: head, pairs, descriptions, then where the data lie.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, Gguf* out)
      : bytes_(bytes), cursor_(bytes), out_(*out) {}

  Status Run() {
    int64_t tensors = 0;
    int64_t pairs = 0;
    WEFT_RETURN_IF_ERROR(ReadHead(&tensors, &pairs));
    for (int64_t i = 0; i < pairs; ++i) WEFT_RETURN_IF_ERROR(ReadPair());
    WEFT_RETURN_IF_ERROR(ReadAlignment());
    for (int64_t i = 0; i < tensors; ++i) WEFT_RETURN_IF_ERROR(ReadTensor());
    return PlaceData();
  }

 private:
  Status ReadHead(int64_t* tensors, int64_t* pairs) {
    std::span<const std::byte> magic;
    WEFT_RETURN_IF_ERROR(cursor_.Take(4, &magic, "the magic bytes"));
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
      return Status::Invalid("is no GGUF file: it does not begin with 'GGUF'");
    }
    uint32_t version = 0;
    WEFT_RETURN_IF_ERROR(cursor_.Read(&version, "the version"));
    if (version == 0) return Status::Invalid("GGUF version 0 does not exist");
    if ((version & 0xffffu) == 0) {
      return Status::Unsupported("GGUF of the other endianness (version word {:#x})", version);
    }
    if (version != 2 && version != 3) {
      return Status::Unsupported("GGUF version {}; versions 2 and 3 can be read", version);
    }
    out_.version_ = version;
    WEFT_RETURN_IF_ERROR(ReadCount(tensors, kTensorsMax, "the number of tensors"));
    WEFT_RETURN_IF_ERROR(ReadCount(pairs, kPairsMax, "the number of metadata pairs"));
    WEFT_RETURN_IF_ERROR(
        cursor_.CheckCount(static_cast<uint64_t>(*pairs), kPairBytesMin, "metadata pairs"));
    return cursor_.CheckCount(static_cast<uint64_t>(*tensors), kTensorBytesMin, "tensors");
  }

  Status ReadCount(int64_t* count, int64_t max, std::string_view what) {
    WEFT_RETURN_IF_ERROR(cursor_.Read(count, what));
    if (*count >= 0 && *count <= max) return Status::Ok();
    return Status::Invalid("{} is {}; it must be from 0 to {}", what, *count, max);
  }

  Status ReadPair() {
    std::string_view key;
    WEFT_RETURN_IF_ERROR(cursor_.ReadString(kKeyBytesMax, &key, "a metadata key"));
    if (key.empty()) return Status::Invalid("metadata pair {} has an empty key", out_.keys_.size());
    if (!out_.keys_.emplace(key, out_.metadata_.size()).second) {
      return Status::Invalid("metadata has the key '{}' twice", Printable(key));
    }
    uint32_t type = 0;
    Status status = cursor_.Read(&type, "a value type");
    std::optional<GgufValue::Any> value;
    if (status.ok()) status = ReadValue(type, &value);
    if (!status.ok()) return status.In(fmt::format("metadata key '{}'", Printable(key)));
    out_.metadata_.emplace_back(key, GgufValue(*std::move(value)));
    return Status::Ok();
  }

  template <typename T>
  Status ReadScalar(std::optional<GgufValue::Any>* out) {
    T value{};
    WEFT_RETURN_IF_ERROR(ReadElement(&value));
    out->emplace(std::in_place_type<T>, value);
    return Status::Ok();
  }

  template <typename T>
  Status ReadElement(T* out) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      return cursor_.ReadString(kStringBytesMax, out, "a string value");
    } else if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      WEFT_RETURN_IF_ERROR(cursor_.Read(&byte, "a boolean"));
      *out = byte != 0;
      return Status::Ok();
    } else {
      return cursor_.Read(out, "a value");
    }
  }

  Status ReadValue(uint32_t type, std::optional<GgufValue::Any>* out) {
    switch (type) {
      case 0: return ReadScalar<uint8_t>(out);
      case 1: return ReadScalar<int8_t>(out);
      case 2: return ReadScalar<uint16_t>(out);
      case 3: return ReadScalar<int16_t>(out);
      case 4: return ReadScalar<uint32_t>(out);
      case 5: return ReadScalar<int32_t>(out);
      case 6: return ReadScalar<float>(out);
      case 7: return ReadScalar<bool>(out);
      case kTypeString: return ReadScalar<std::string_view>(out);
      case kTypeArray: return ReadArray(out);
      case 10: return ReadScalar<uint64_t>(out);
      case 11: return ReadScalar<int64_t>(out);
      case 12: return ReadScalar<double>(out);
      default: return Status::Invalid("unknown value type {}", type);
    }
  }

  Status ReadArray(std::optional<GgufValue::Any>* out) {
    uint32_t type = 0;
    uint64_t count = 0;
    WEFT_RETURN_IF_ERROR(cursor_.Read(&type, "an array's type"));
    WEFT_RETURN_IF_ERROR(cursor_.Read(&count, "an array's length"));
    if (type == kTypeArray) return Status::Invalid("an array of arrays is not allowed");
    if (count > kArrayElementsMax) {
      return Status::Invalid("an array of {} elements exceeds the limit of {}", count,
                             kArrayElementsMax);
    }
    switch (type) {
      case 0: return ReadElements<uint8_t>(count, out);
      case 1: return ReadElements<int8_t>(count, out);
      case 2: return ReadElements<uint16_t>(count, out);
      case 3: return ReadElements<int16_t>(count, out);
      case 4: return ReadElements<uint32_t>(count, out);
      case 5: return ReadElements<int32_t>(count, out);
      case 6: return ReadElements<float>(count, out);
      case 7: return ReadElements<bool>(count, out);
      case kTypeString: return ReadElements<std::string_view>(count, out);
      case 10: return ReadElements<uint64_t>(count, out);
      case 11: return ReadElements<int64_t>(count, out);
      case 12: return ReadElements<double>(count, out);
      default: return Status::Invalid("unknown array element type {}", type);
    }
  }

  template <typename T>
  Status ReadElements(uint64_t count, std::optional<GgufValue::Any>* out) {
    constexpr uint64_t kBytesEach = std::is_same_v<T, std::string_view> ? 8 : sizeof(T);
    WEFT_RETURN_IF_ERROR(cursor_.CheckCount(count, kBytesEach, "array elements"));
    std::vector<T> values;
    values.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      T value{};
      WEFT_RETURN_IF_ERROR(ReadElement(&value));
      values.push_back(value);
    }
    out->emplace(GgufArray(std::move(values)));
    return Status::Ok();
  }

  Status ReadAlignment() {
    const GgufValue* value = out_.Find("general.alignment");
    if (value == nullptr) return Status::Ok();
    const uint32_t* alignment = std::get_if<uint32_t>(&value->any());
    if (alignment == nullptr) {
      return Status::Invalid("general.alignment must be a u32, found {}", value->type_name());
    }
    if (!std::has_single_bit(*alignment)) {
      return Status::Invalid("general.alignment must be a power of two, found {}", *alignment);
    }
    alignment_ = *alignment;
    return Status::Ok();
  }

  Status ReadTensor() {
    std::string_view name;
    WEFT_RETURN_IF_ERROR(cursor_.ReadString(kTensorNameBytesMax, &name, "a tensor's name"));
    if (name.empty()) return Status::Invalid("tensor {} has an empty name", out_.tensors_.size());
    if (!names_.insert(name).second) {
      return Status::Invalid("there are two tensors '{}'", Printable(name));
    }
    Tensor tensor;
    tensor.name = name;
    const Status status = ReadDescription(&tensor);
    if (!status.ok()) return status.In(fmt::format("tensor '{}'", Printable(name)));
    out_.tensors_.push_back(std::move(tensor));
    return Status::Ok();
  }

  Status ReadDescription(Tensor* tensor) {
    uint32_t dims = 0;
    WEFT_RETURN_IF_ERROR(cursor_.Read(&dims, "the number of dimensions"));
    if (dims > kDimsMax) return Status::Invalid("{} dimensions, at most {}", dims, kDimsMax);
    tensor->shape.resize(dims);
    for (uint32_t i = 0; i < dims; ++i) {
      // The file begins with the fastest dimension.
      int64_t& dim = tensor->shape[dims - 1 - i];
      WEFT_RETURN_IF_ERROR(cursor_.Read(&dim, "a dimension"));
      if (dim < 0) return Status::Invalid("dimension {} is negative: {}", i, dim);
    }
    uint32_t type = 0;
    uint64_t offset = 0;
    WEFT_RETURN_IF_ERROR(cursor_.Read(&type, "the tensor type"));
    WEFT_RETURN_IF_ERROR(cursor_.Read(&offset, "the data offset"));
    WEFT_ASSIGN_OR_RETURN(tensor->dtype, DTypeOfGguf(type));
    WEFT_RETURN_IF_ERROR(SetBytes(tensor));
    return CheckOffset(*tensor, offset);
  }

  Status SetBytes(Tensor* tensor) {
    const std::optional<int64_t> elements = CheckedElements(tensor->shape);
    if (!elements) return Status::Invalid("the product of its dimensions overflows");
    const DTypeFacts& facts = FactsOf(tensor->dtype);
    const int64_t row = tensor->shape.empty() ? 1 : tensor->shape.back();
    if (row % facts.block_elements != 0) {
      return Status::Invalid("a row of {} elements is no whole number of {} blocks of {}", row,
                             facts.name, facts.block_elements);
    }
    const std::optional<int64_t> bytes =
        CheckedMul(*elements / facts.block_elements, facts.block_bytes);
    if (!bytes) return Status::Invalid("its size in bytes overflows");
    tensor->bytes = *bytes;
    return Status::Ok();
  }

  Status CheckOffset(const Tensor& tensor, uint64_t offset) {
    if (offset != static_cast<uint64_t>(data_bytes_)) {
      return Status::Invalid(
          "data offset {}, but the tensors before it end at {} (no holes, no overlap)", offset,
          data_bytes_);
    }
    const std::optional<int64_t> end = CheckedAdd(data_bytes_, tensor.bytes);
    const std::optional<int64_t> padded = end ? CheckedAlignUp(*end, alignment_) : std::nullopt;
    if (!padded) return Status::Invalid("the sum of the tensor sizes overflows");
    offsets_.push_back(data_bytes_);
    data_bytes_ = *padded;
    return Status::Ok();
  }

  Status PlaceData() {
    if (out_.tensors_.empty()) return Status::Ok();
    const auto size = static_cast<int64_t>(bytes_.size());
    const std::optional<int64_t> start =
        CheckedAlignUp(static_cast<int64_t>(cursor_.position()), alignment_);
    for (size_t i = 0; i < out_.tensors_.size(); ++i) {
      Tensor& tensor = out_.tensors_[i];
      const std::optional<int64_t> begin = start ? CheckedAdd(*start, offsets_[i]) : std::nullopt;
      const std::optional<int64_t> end = begin ? CheckedAdd(*begin, tensor.bytes) : std::nullopt;
      // The last tensor may lack its padding; a tensor without elements may lie behind the end.
      if (!end || (tensor.bytes > 0 && *end > size)) {
        return Status::Invalid("tensor '{}': its {} bytes at offset {} end beyond the file's {}",
                               Printable(tensor.name), tensor.bytes, offsets_[i], size);
      }
      tensor.data = bytes_.data() + std::min(*begin, size);
    }
    return Status::Ok();
  }

  std::span<const std::byte> bytes_;
  BoundedCursor cursor_;
  Gguf& out_;
  int64_t alignment_ = kAlignmentDefault;
  int64_t data_bytes_ = 0;  // of the tensors so far, each padded
  std::vector<int64_t> offsets_;
  std::unordered_set<std::string_view> names_;
};

Result<Gguf> Gguf::Parse(std::span<const std::byte> bytes, std::string name) {
  Gguf gguf;
  gguf.name_ = std::move(name);
  const Status status = GgufParser(bytes, &gguf).Run();
  if (!status.ok()) return status.In(gguf.name_);
  return gguf;
}

const GgufValue* Gguf::Find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second].second;
}

}  // namespace weft::io
