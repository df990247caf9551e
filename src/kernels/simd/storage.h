// Elements in the model dtype, to and from fp32: the one rounding of a value.
#pragma once

#include "base/bf16.h"
#include "kernels/simd/vec.h"

namespace weft::kernels {

static WEFT_INLINE float LoadElement(const float* p) { return *p; }
static WEFT_INLINE float LoadElement(const Bf16* p) { return ToFloat(*p); }
static WEFT_INLINE void StoreElement(float* p, float x) { *p = x; }
static WEFT_INLINE void StoreElement(Bf16* p, float x) { *p = ToBf16(x); }

static WEFT_INLINE F8 Load8(const float* p) { return F8::Load(p); }
static WEFT_INLINE F8 Load8(const Bf16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}

// The bits of ToBf16(x) in the high half of each lane, zero below: the rounded value as a float.
static WEFT_INLINE __m256i RoundToBf16Bits(F8 x) {
  const __m256i u = _mm256_castps_si256(x.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
  return _mm256_and_si256(_mm256_blendv_epi8(rounded, quiet, nan),
                          _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
}

static WEFT_INLINE F8 RoundToBf16(F8 x) { return {_mm256_castsi256_ps(RoundToBf16Bits(x))}; }

static WEFT_INLINE void Store8(float* p, F8 x) { x.Store(p); }
static WEFT_INLINE void Store8(Bf16* p, F8 x) {
  const __m256i high = _mm256_srli_epi32(RoundToBf16Bits(x), 16);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}

// What a value becomes when it is stored as T and read back.
template <typename T>
static WEFT_INLINE float Rounded(float x) {
  T stored;
  StoreElement(&stored, x);
  return LoadElement(&stored);
}

}  // namespace weft::kernels
