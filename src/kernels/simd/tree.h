// The fixed tree of sums (docs/numerics.md 4 and 5): 16 lanes, then leaves.
#pragma once

#include "kernels/simd/vec.h"

namespace weft::kernels {

// Tree(lo, hi) over x: splits at lo + the largest power of two below hi - lo. REQUIRES: lo < hi.
[[maybe_unused]] static float TreeSum(const float* x, int lo, int hi) {
  if (hi - lo == 1) return x[lo];
  int half = 1;
  while (2 * half < hi - lo) half *= 2;
  return TreeSum(x, lo, lo + half) + TreeSum(x, lo + half, hi);
}

// The same for 16 lanes: neighbours, then pairs of neighbours, ...
static WEFT_INLINE float TreeSum16(const float* x) {
  float y[8];
  for (int i = 0; i < 8; ++i) y[i] = x[2 * i] + x[2 * i + 1];
  return ((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7]));
}

// Lanes 0-7 in a, 8-15 in b; the additions are those of TreeSum16 (IEEE addition commutes).
static WEFT_INLINE float TreeSum16(F8 a, F8 b) {
  const __m256 pairs = _mm256_hadd_ps(a.v, b.v);
  const __m256 fours = _mm256_hadd_ps(pairs, pairs);
  const __m128 eights = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1));
  return _mm_cvtss_f32(_mm_add_ss(eights, _mm_movehdup_ps(eights)));
}

}  // namespace weft::kernels
