// Philox4x32-10: a counter in, four random words out, no state (Salmon et al. 2011, table 2).
#pragma once

#include <array>
#include <cstdint>

namespace weft::kernels {

using Philox = std::array<uint32_t, 4>;

constexpr Philox Philox4x32(Philox counter, uint64_t key) {
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The draw of weft: the counter is (choice, position, kind, 0), the key is the seed.
constexpr Philox DrawWords(uint64_t seed, uint32_t choice, uint32_t position, uint32_t kind) {
  return Philox4x32({choice, position, kind, 0}, seed);
}

inline constexpr uint32_t kDrawToken = 0;  // the kind of the draw that picks a token

}  // namespace weft::kernels
