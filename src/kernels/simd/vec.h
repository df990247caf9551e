// A register of floats as a value, in one spelling for every width, so that a formula that must
// give the same bits in scalar and vector code is written once (simd/math.h).
//
// Everything here is always inlined: a file built for a wider instruction set must not leave a
// function behind that the linker may pick for everybody (docs: weak symbols and *_avx512.cc).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define WEFT_INLINE inline __attribute__((always_inline))

// Before a loop over registers: gcc 12 keeps an array of accumulators in memory unless such loops
// are gone before it looks (halves the speed of a 6x16 block on Zen 3).
#define WEFT_UNROLL _Pragma("GCC unroll 16")

namespace weft::kernels {

struct F1 {
  static constexpr int kLanes = 1;
  float v;

  static WEFT_INLINE F1 Set(float x) { return {x}; }
  static WEFT_INLINE F1 Zero() { return {0.0f}; }
  static WEFT_INLINE F1 Load(const float* p) { return {*p}; }
  WEFT_INLINE void Store(float* p) const { *p = v; }
  friend WEFT_INLINE F1 operator+(F1 a, F1 b) { return {a.v + b.v}; }
  friend WEFT_INLINE F1 operator-(F1 a, F1 b) { return {a.v - b.v}; }
  friend WEFT_INLINE F1 operator*(F1 a, F1 b) { return {a.v * b.v}; }
  friend WEFT_INLINE F1 operator/(F1 a, F1 b) { return {a.v / b.v}; }
  static WEFT_INLINE F1 Fma(F1 a, F1 b, F1 c) { return {__builtin_fmaf(a.v, b.v, c.v)}; }
  // a > b ? a : b, so b where either is NaN.
  static WEFT_INLINE F1 Max(F1 a, F1 b) { return {a.v > b.v ? a.v : b.v}; }
  // p * 2^n, where n is in the low bits of t's pattern; no check of the range.
  static WEFT_INLINE F1 AddExponent(F1 p, F1 t) {
    uint32_t a, b;
    std::memcpy(&a, &p.v, 4);
    std::memcpy(&b, &t.v, 4);
    a += b << 23;
    std::memcpy(&p.v, &a, 4);
    return p;
  }
  static WEFT_INLINE F1 IfLess(F1 a, F1 b, F1 yes, F1 no) { return a.v < b.v ? yes : no; }
  static WEFT_INLINE F1 IfNaN(F1 a, F1 yes, F1 no) { return a.v != a.v ? yes : no; }
};

struct F8 {
  static constexpr int kLanes = 8;
  __m256 v;

  static WEFT_INLINE F8 Set(float x) { return {_mm256_set1_ps(x)}; }
  static WEFT_INLINE F8 Zero() { return {_mm256_setzero_ps()}; }
  static WEFT_INLINE F8 Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  WEFT_INLINE void Store(float* p) const { _mm256_storeu_ps(p, v); }
  friend WEFT_INLINE F8 operator+(F8 a, F8 b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend WEFT_INLINE F8 operator-(F8 a, F8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend WEFT_INLINE F8 operator*(F8 a, F8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend WEFT_INLINE F8 operator/(F8 a, F8 b) { return {_mm256_div_ps(a.v, b.v)}; }
  static WEFT_INLINE F8 Fma(F8 a, F8 b, F8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  static WEFT_INLINE F8 Max(F8 a, F8 b) { return {_mm256_max_ps(a.v, b.v)}; }
  static WEFT_INLINE F8 AddExponent(F8 p, F8 t) {
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t.v), 23);
    return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.v), n))};
  }
  static WEFT_INLINE F8 IfLess(F8 a, F8 b, F8 yes, F8 no) {
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
  }
  static WEFT_INLINE F8 IfNaN(F8 a, F8 yes, F8 no) {
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
  }
};

#ifdef __AVX512F__
struct F16x {
  static constexpr int kLanes = 16;
  __m512 v;

  static WEFT_INLINE F16x Set(float x) { return {_mm512_set1_ps(x)}; }
  static WEFT_INLINE F16x Zero() { return {_mm512_setzero_ps()}; }
  static WEFT_INLINE F16x Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  WEFT_INLINE void Store(float* p) const { _mm512_storeu_ps(p, v); }
  friend WEFT_INLINE F16x operator+(F16x a, F16x b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend WEFT_INLINE F16x operator-(F16x a, F16x b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend WEFT_INLINE F16x operator*(F16x a, F16x b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend WEFT_INLINE F16x operator/(F16x a, F16x b) { return {_mm512_div_ps(a.v, b.v)}; }
  static WEFT_INLINE F16x Fma(F16x a, F16x b, F16x c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static WEFT_INLINE F16x Max(F16x a, F16x b) { return {_mm512_max_ps(a.v, b.v)}; }
  static WEFT_INLINE F16x AddExponent(F16x p, F16x t) {
    const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), n))};
  }
  static WEFT_INLINE F16x IfLess(F16x a, F16x b, F16x yes, F16x no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
  }
  static WEFT_INLINE F16x IfNaN(F16x a, F16x yes, F16x no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), no.v, yes.v)};
  }
};
#endif

}  // namespace weft::kernels
