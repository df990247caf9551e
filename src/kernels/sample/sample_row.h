// The parts of sampling that have one definition for all variants: how a row's few edited logits
// are computed, how a candidate becomes a sort key, and its weight as an integer.
//
// Weights are integers in units of 2^-40 of the best candidate's: integer sums do not depend on
// their order, so a variant need not sort, or even look at, what the answer does not depend on.
// A candidate below 2^-41 of the best one weighs nothing.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/sample/philox.h"
#include "kernels/sample/sample.h"
#include "kernels/simd/math.h"

namespace weft::kernels {

// Below this a temperature is none: the largest processed logit is taken (vLLM's bound).
inline constexpr float kGreedyTemperature = 1e-5f;

// Ascending order of keys = (value descending, id ascending). -0 counts as +0. REQUIRES: no NaN.
inline uint64_t SortKey(float value, int32_t id) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  const uint32_t ascending = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return (uint64_t{~ascending} << 32) | static_cast<uint32_t>(id);
}
inline int32_t IdOf(uint64_t key) { return static_cast<int32_t>(key & 0xffffffffu); }
inline float ValueOf(uint64_t key) {
  const uint32_t ascending = ~static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>(ascending ^ ((ascending >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

// exp(value - max), and 1 for the maximum itself, so that +inf is no NaN.
inline float WeightOf(float value, float max) { return value == max ? 1.0f : Exp(value - max); }

// To the nearest multiple of 2^-40, ties to even. REQUIRES: weight in [0, 1].
inline uint64_t FixedWeight(float weight) {
  const double shifted = static_cast<double>(weight) * 0x1p40 + 0x1p52;
  return std::bit_cast<uint64_t>(shifted) & 0xfffffffffffffull;
}

// A candidate stays under top-p while what is before it weighs less than p of the total.
inline bool BelowTopP(uint64_t before, uint64_t total, float top_p) {
  const auto p = static_cast<uint64_t>(static_cast<double>(top_p) * 0x1p32);
  return (static_cast<unsigned __int128>(before) << 32) <
         static_cast<unsigned __int128>(p == 0 ? 1 : p) * total;
}

// The draw: candidate i is taken when it is the first whose cumulative weight is above this.
// floor(r * total) with 64 random bits r, of which UniformDraw's 24 are the highest.
inline uint64_t DrawThreshold(const SampleRow& row, uint64_t total) {
  const Philox words = DrawWords(row.seed, row.choice, row.position, kDrawToken);
  const uint64_t r = (uint64_t{words[0]} << 32) | words[1];
  return static_cast<uint64_t>((static_cast<unsigned __int128>(r) * total) >> 64);
}

// Everything that changes single ids: grammar, bans, bias, penalties, in that order. x: [vocab], a
// copy of the raw logits. An id outside the vocabulary is ignored.
//   repetition  x > 0 ? x / r : x * r;  frequency  x = fma(-f, count, x);  presence  x = x - p
//   (the last two where the output has the id).
void EditLogits(const SampleRow& row, int64_t vocab, float* x);

// log-probability, rank and the best ids from the raw logits; `sum` is the sum of exp(x - max).
inline float LogProbability(float value, float max, float sum) { return (value - max) - Log(sum); }

}  // namespace weft::kernels
