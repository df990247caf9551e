// Hashes of bytes, the same on every machine: XXH64 where a published value is compared (logits,
// plans), XXH3-128 where a collision would mix two users' data (prefix blocks). Not against an
// adversary who knows the seed; files are checked with SHA-256 (io).
// Thread: any; a stream belongs to one thread. Nothing here allocates.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

uint64_t Hash64(const void* data, size_t bytes, uint64_t seed = 0);
inline uint64_t Hash64(std::string_view text, uint64_t seed = 0) {
  return Hash64(text.data(), text.size(), seed);
}

struct Hash128Value {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(Hash128Value, Hash128Value) = default;
  std::string Hex() const;  // 32 digits, high first
};

Hash128Value Hash128(const void* data, size_t bytes, uint64_t seed = 0);
inline Hash128Value Hash128(std::string_view text, uint64_t seed = 0) {
  return Hash128(text.data(), text.size(), seed);
}

// XXH64 of all bytes added, in order; the pieces leave no trace.
class Hash64Stream {
 public:
  explicit Hash64Stream(uint64_t seed = 0);
  void Add(const void* data, size_t bytes);
  void Add(std::string_view text) { Add(text.data(), text.size()); }
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void AddValue(T value) {
    Add(&value, sizeof value);
  }
  uint64_t Digest() const;

 private:
  alignas(64) std::byte state_[128];
};

// XXH3-128 likewise.
class Hash128Stream {
 public:
  explicit Hash128Stream(uint64_t seed = 0);
  void Add(const void* data, size_t bytes);
  void Add(std::string_view text) { Add(text.data(), text.size()); }
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void AddValue(T value) {
    Add(&value, sizeof value);
  }
  Hash128Value Digest() const;

 private:
  alignas(64) std::byte state_[576];
};

}  // namespace weft
