#include "base/hash.h"

#define XXH_INLINE_ALL  // makes the states complete, so that a stream needs no allocation
#include <xxhash.h>

#include <fmt/format.h>

#include <new>

namespace weft {
namespace {

template <typename State>
State* As(std::byte* bytes) {
  return std::launder(reinterpret_cast<State*>(bytes));
}
template <typename State>
const State* As(const std::byte* bytes) {
  return std::launder(reinterpret_cast<const State*>(bytes));
}

Hash128Value ToValue(XXH128_hash_t hash) { return {.high = hash.high64, .low = hash.low64}; }

}  // namespace

uint64_t Hash64(const void* data, size_t bytes, uint64_t seed) { return XXH64(data, bytes, seed); }

Hash128Value Hash128(const void* data, size_t bytes, uint64_t seed) {
  return ToValue(XXH3_128bits_withSeed(data, bytes, seed));
}

std::string Hash128Value::Hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash64Stream::Hash64Stream(uint64_t seed) {
  static_assert(sizeof(XXH64_state_t) <= sizeof state_);
  XXH64_reset(new (state_) XXH64_state_t, seed);
}

void Hash64Stream::Add(const void* data, size_t bytes) {
  if (bytes > 0) XXH64_update(As<XXH64_state_t>(state_), data, bytes);
}

uint64_t Hash64Stream::Digest() const { return XXH64_digest(As<XXH64_state_t>(state_)); }

Hash128Stream::Hash128Stream(uint64_t seed) {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  auto* state = new (state_) XXH3_state_t;
  XXH3_INITSTATE(state);
  XXH3_128bits_reset_withSeed(state, seed);
}

void Hash128Stream::Add(const void* data, size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(As<XXH3_state_t>(state_), data, bytes);
}

Hash128Value Hash128Stream::Digest() const {
  return ToValue(XXH3_128bits_digest(As<XXH3_state_t>(state_)));
}

}  // namespace weft
