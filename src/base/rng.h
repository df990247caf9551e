// Random numbers for tests, benches, ids and jitter. Not for sampling tokens: those draws are
// stateless functions of (seed, choice, position, kind), see kernels/sample.
// Source: Vigna, splitmix64 and xoshiro256++ (public domain algorithms).
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

// One step of splitmix64: a bijection that spreads close seeds apart.
inline uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// xoshiro256++. A value type: copy it to replay.
class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix64(&seed);
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // [0, n), without bias (Lemire). REQUIRES: n >= 1.
  uint64_t Below(uint64_t n) {
    unsigned __int128 product = static_cast<unsigned __int128>(Next()) * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t threshold = (0 - n) % n;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<unsigned __int128>(Next()) * n;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(Next() >> 40) * 0x1.0p-24f;
  }

 private:
  uint64_t state_[4];
};

}  // namespace weft
