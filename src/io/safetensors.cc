#include "io/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "io/bounded_cursor.h"
#include "io/checked_math.h"
#include "io/printable.h"

namespace weft::io {
namespace {

constexpr uint64_t kHeaderBytesMax = 100'000'000;
// A value of the parsed header takes far more room than its two bytes of text. No checkpoint comes
// near this many (six per tensor), and it bounds what a hostile header can make us take.
constexpr int64_t kHeaderValuesMax = 8'000'000;

struct SafetensorsType {
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr std::array<SafetensorsType, 22> kSafetensorsTypes{{
    {"F32", DType::kF32}, {"BF16", DType::kBF16},
    {"F16", DType::kF16}, {"I32", DType::kI32},
    {"I64", DType::kI64}, {"I8", DType::kI8},
    {"U8", DType::kU8},   {"BOOL", DType::kBool},
    {"F4", {}},           {"F6_E2M3", {}},
    {"F6_E3M2", {}},      {"F8_E5M2", {}},
    {"F8_E4M3", {}},      {"F8_E8M0", {}},
    {"F8_E4M3FNUZ", {}},  {"F8_E5M2FNUZ", {}},
    {"I16", {}},          {"U16", {}},
    {"U32", {}},          {"U64", {}},
    {"F64", {}},          {"C64", {}},
}};

Result<DType> DTypeNamed(std::string_view name) {
  for (const SafetensorsType& facts : kSafetensorsTypes) {
    if (facts.name != name) continue;
    if (facts.dtype) return *facts.dtype;
    return Status::Unsupported(
        "dtype {} is not supported; F32, BF16, F16, I64, I32, I8, U8 and BOOL are", name);
  }
  return Status::Invalid("unknown dtype '{}'", Printable(name));
}

Result<const Json*> Member(const Json& entry, std::string_view key) {
  const Json* value = entry.Find(key);
  if (value == nullptr) return Status::Invalid("'{}' is missing", key);
  return value;
}

Result<std::vector<int64_t>> Naturals(const Json& entry, std::string_view key) {
  WEFT_ASSIGN_OR_RETURN(const Json* value, Member(entry, key));
  if (!value->is_array()) {
    return Status::Invalid("'{}' must be an array, found {}", key, value->type_name());
  }
  std::vector<int64_t> out;
  for (const Json& item : value->as_array()) {
    if (!item.is_int() || item.as_int() < 0) {
      return Status::Invalid("'{}' must hold integers from 0 on, found {}", key,
                             Printable(DumpJson(item)));
    }
    out.push_back(item.as_int());
  }
  return out;
}

}  // namespace

class SafetensorsParser {
 public:
  SafetensorsParser(std::span<const std::byte> bytes, Safetensors* out)
      : bytes_(bytes), out_(*out) {}

  Status Run() {
    WEFT_ASSIGN_OR_RETURN(const Json header, ReadHeader());
    for (const auto& [name, entry] : header.as_object()) {
      if (name == "__metadata__") {
        WEFT_RETURN_IF_ERROR(ReadMetadata(entry));
        continue;
      }
      const Status status = ReadEntry(name, entry);
      if (!status.ok()) return status.In(fmt::format("tensor '{}'", Printable(name)));
    }
    return PlaceData();
  }

 private:
  struct Entry {
    Tensor tensor;
    int64_t begin = 0;
    int64_t end = 0;
  };

  Result<Json> ReadHeader() {
    BoundedCursor cursor(bytes_);
    uint64_t size = 0;
    WEFT_RETURN_IF_ERROR(cursor.Read(&size, "the header's length"));
    if (size > kHeaderBytesMax) {
      return Status::Invalid("a header of {} bytes exceeds the limit of {}", size, kHeaderBytesMax);
    }
    std::span<const std::byte> bytes;
    WEFT_RETURN_IF_ERROR(cursor.Take(size, &bytes, "the header"));
    buffer_ = bytes_.subspan(cursor.position());
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with('{')) return Status::Invalid("the header does not begin with '{{'");
    if (std::count(text.begin(), text.end(), ',') > kHeaderValuesMax) {
      return Status::Invalid("the header holds more than {} values", kHeaderValuesMax);
    }
    Result<Json> header = ParseJson(text, {.bytes_max = kHeaderBytesMax, .depth_max = 8});
    if (!header.ok()) return header.status().In("header");
    return header;
  }

  Status ReadMetadata(const Json& entry) {
    if (entry.is_null()) return Status::Ok();
    if (!entry.is_object()) {
      return Status::Invalid("'__metadata__' must be an object, found {}", entry.type_name());
    }
    for (const auto& [key, value] : entry.as_object()) {
      if (!value.is_string()) {
        return Status::Invalid("'__metadata__' maps strings to strings, but '{}' to a {}",
                               Printable(key), value.type_name());
      }
      out_.metadata_.emplace_back(key, value.as_string());
    }
    return Status::Ok();
  }

  Status ReadEntry(const std::string& name, const Json& json) {
    if (!json.is_object()) return Status::Invalid("must be an object, found {}", json.type_name());
    Entry entry;
    entry.tensor.name = name;
    WEFT_ASSIGN_OR_RETURN(const Json* dtype, Member(json, "dtype"));
    if (!dtype->is_string()) {
      return Status::Invalid("'dtype' must be a string, found {}", dtype->type_name());
    }
    WEFT_ASSIGN_OR_RETURN(entry.tensor.shape, Naturals(json, "shape"));
    WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> range, Naturals(json, "data_offsets"));
    if (range.size() != 2) {
      return Status::Invalid("'data_offsets' must be [begin, end], found {} numbers", range.size());
    }
    entry.begin = range[0];
    entry.end = range[1];
    WEFT_ASSIGN_OR_RETURN(entry.tensor.dtype, DTypeNamed(dtype->as_string()));
    WEFT_RETURN_IF_ERROR(CheckSize(&entry));
    entries_.push_back(std::move(entry));
    return Status::Ok();
  }

  Status CheckSize(Entry* entry) const {
    if (entry->begin > entry->end) {
      return Status::Invalid("data_offsets [{}, {}] run backwards", entry->begin, entry->end);
    }
    const std::optional<int64_t> elements = CheckedElements(entry->tensor.shape);
    const DTypeFacts& facts = FactsOf(entry->tensor.dtype);
    const std::optional<int64_t> bytes =
        elements ? CheckedMul(*elements, facts.block_bytes) : std::nullopt;
    if (!bytes) return Status::Invalid("the size of its shape overflows");
    if (*bytes != entry->end - entry->begin) {
      return Status::Invalid("its shape of {} takes {} bytes, but data_offsets hold {}", facts.name,
                             *bytes, entry->end - entry->begin);
    }
    entry->tensor.bytes = *bytes;
    return Status::Ok();
  }

  Status PlaceData() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    const auto size = static_cast<int64_t>(buffer_.size());
    int64_t end = 0;
    for (const Entry& entry : entries_) {
      if (entry.begin != end) {
        return Status::Invalid(
            "tensor '{}': begins at {} of the buffer, but the data before it end "
            "at {} ({})",
            Printable(entry.tensor.name), entry.begin, end,
            entry.begin > end ? "a hole" : "an overlap");
      }
      end = entry.end;
      if (end > size) {
        return Status::Invalid("tensor '{}': ends at {} of a buffer of {} bytes",
                               Printable(entry.tensor.name), end, size);
      }
    }
    if (end != size) {
      return Status::Invalid("{} bytes of the buffer belong to no tensor (the last ends at {})",
                             size - end, end);
    }
    out_.tensors_.reserve(entries_.size());
    for (Entry& entry : entries_) {
      entry.tensor.data = buffer_.data() + entry.begin;
      out_.tensors_.push_back(std::move(entry.tensor));
    }
    return Status::Ok();
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> buffer_;
  Safetensors& out_;
  std::vector<Entry> entries_;
};

Result<Safetensors> Safetensors::Parse(std::span<const std::byte> bytes, std::string name) {
  Safetensors file;
  file.name_ = std::move(name);
  const Status status = SafetensorsParser(bytes, &file).Run();
  if (!status.ok()) return status.In(file.name_);
  return file;
}

}  // namespace weft::io
