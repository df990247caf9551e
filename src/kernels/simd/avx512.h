// 512-bit registers under names of our own: one intrinsic per function.
//
// With WEFT_EMULATE_AVX512 the same names are plain loops over arrays. Tests include a *_avx512.cc
// in that form and compare it with the contract on CPUs that cannot run the real one, so that what
// remains unproven there is one intrinsic per line below. The two forms live in two namespaces, so
// a program may hold both.
//
// vdpbf16ps and vcvtneps2bf16 do not look at MXCSR: they round to nearest even and flush denormals,
// always. The emulation does so because every compute thread is set that way (kernels/float_env.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bf16.h"
#include "kernels/simd/vec.h"

#ifndef WEFT_EMULATE_AVX512

namespace weft::kernels::avx512_native {

using Floats = __m512;   // 16 floats
using Words = __m512i;   // 16 int32, 32 int16 or 64 bytes
using Shorts = __m256i;  // 16 uint16
using Mask = __mmask16;  // of 16 lanes
using kernels::F16x;

static WEFT_INLINE Floats ZeroFloats() { return _mm512_setzero_ps(); }
static WEFT_INLINE Words ZeroWords() { return _mm512_setzero_si512(); }
static WEFT_INLINE Floats LoadFloats(const float* p) { return _mm512_loadu_ps(p); }
static WEFT_INLINE void StoreFloats(float* p, Floats x) { _mm512_storeu_ps(p, x); }
static WEFT_INLINE Floats BroadcastFloat(const void* p) {
  float x;
  std::memcpy(&x, p, 4);
  return _mm512_set1_ps(x);
}
static WEFT_INLINE Words LoadWords(const void* p) { return _mm512_loadu_si512(p); }
static WEFT_INLINE Words BroadcastWord(const void* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}
static WEFT_INLINE Words SetBytes(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
static WEFT_INLINE Words SetWords(int32_t x) { return _mm512_set1_epi32(x); }
static WEFT_INLINE Words And(Words a, Words b) { return _mm512_and_si512(a, b); }
static WEFT_INLINE Words Or(Words a, Words b) { return _mm512_or_si512(a, b); }
static WEFT_INLINE Words Xor(Words a, Words b) { return _mm512_xor_si512(a, b); }
// Shifts of int32; what crosses from byte to byte is the caller's to mask.
static WEFT_INLINE Words ShiftLeft(Words a, unsigned n) { return _mm512_slli_epi32(a, n); }
static WEFT_INLINE Words ShiftRight(Words a, unsigned n) { return _mm512_srli_epi32(a, n); }
static WEFT_INLINE Words Subtract(Words a, Words b) { return _mm512_sub_epi32(a, b); }
static WEFT_INLINE Words SubtractBytes(Words a, Words b) { return _mm512_sub_epi8(a, b); }
static WEFT_INLINE void StoreWords(void* p, Words x) { _mm512_storeu_si512(p, x); }
static WEFT_INLINE Floats ToFloats(Words a) { return _mm512_cvtepi32_ps(a); }
// To nearest even; what int32 cannot hold, and NaN, becomes -2^31.
static WEFT_INLINE Words ToWords(Floats a) { return _mm512_cvtps_epi32(a); }
// The low halves of `low`'s words with the high halves of `high`'s.
static WEFT_INLINE Words JoinHalves(Words low, Words high) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, low, high);
}
// The low byte of each half of a word.
static WEFT_INLINE void StoreBytesOfHalves(void* p, Words a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi16_epi8(a));
}
// The low byte of each word.
static WEFT_INLINE void StoreBytes(void* p, Words a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
}
static WEFT_INLINE Words FloatBits(Floats a) { return _mm512_castps_si512(a); }
static WEFT_INLINE Floats BitsToFloats(Words a) { return _mm512_castsi512_ps(a); }
static WEFT_INLINE Words Add(Words a, Words b) { return _mm512_add_epi32(a, b); }
static WEFT_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
static WEFT_INLINE Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
static WEFT_INLINE Floats Fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
// The largest lane. Which of -0 and +0 is free; no lane is NaN.
static WEFT_INLINE float Largest(Floats a) { return _mm512_reduce_max_ps(a); }
static WEFT_INLINE F8 LowHalf(Floats a) { return {_mm512_castps512_ps256(a)}; }
static WEFT_INLINE F8 HighHalf(Floats a) { return {_mm512_extractf32x8_ps(a, 1)}; }
static WEFT_INLINE Floats Select(Mask mask, Floats yes, Floats no) {
  return _mm512_mask_blend_ps(mask, no, yes);
}
// Memory under a mask: what is not in it is not touched, and read as zero.
static WEFT_INLINE Floats LoadFloats(Mask mask, const float* p) {
  return _mm512_maskz_loadu_ps(mask, p);
}
static WEFT_INLINE void StoreFloats(Mask mask, float* p, Floats x) {
  _mm512_mask_storeu_ps(p, mask, x);
}
static WEFT_INLINE Words LoadWords(Mask mask, const void* p) {
  return _mm512_maskz_loadu_epi32(mask, p);
}
static WEFT_INLINE Shorts LoadShorts(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
static WEFT_INLINE Shorts LoadShorts(Mask mask, const void* p) {
  return _mm256_maskz_loadu_epi16(mask, p);
}
static WEFT_INLINE void StoreShorts(void* p, Shorts x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), x);
}
static WEFT_INLINE void StoreShorts(Mask mask, void* p, Shorts x) {
  _mm256_mask_storeu_epi16(p, mask, x);
}
static WEFT_INLINE Words Widen(Shorts a) { return _mm512_cvtepu16_epi32(a); }
static WEFT_INLINE Floats LoadHalves(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
static WEFT_INLINE Words LoadUnsignedBytes(const void* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
static WEFT_INLINE Words LoadSignedBytes(const void* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
#ifdef __AVX512BF16__
static WEFT_INLINE Shorts RoundToBf16(Floats a) { return (__m256i)_mm512_cvtneps_pbh(a); }
// acc + w . x over pairs of bf16: fma(even, even, fma(odd, odd, acc)).
static WEFT_INLINE Floats DotBf16(Floats acc, Words w, Words x) {
  return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
}
#endif
#ifdef __AVX512VNNI__
// acc + sum of 4 products of an unsigned byte of w and a signed byte of x; it does not saturate.
static WEFT_INLINE Words DotInt8(Words acc, Words w, Words x) {
  return _mm512_dpbusd_epi32(acc, w, x);
}
#endif

}  // namespace weft::kernels::avx512_native

#else

// Calls, because a tile of 24 registers of which each is a loop is more than compilers digest:
// inlined and with the sanitizers one test took above seven minutes to build.
#define WEFT_EMULATED inline __attribute__((noinline))

namespace weft::kernels::avx512_emulated {

struct Floats {
  float at[16];
};
struct Words {
  int32_t at[16];
};
struct Shorts {
  uint16_t at[16];
};
using Mask = uint16_t;

template <typename F>
static WEFT_INLINE Floats EachFloat(const F& f) {
  Floats out;
  for (int i = 0; i < 16; ++i) out.at[i] = f(i);
  return out;
}
template <typename F>
static WEFT_INLINE Words EachWord(const F& f) {
  Words out;
  for (int i = 0; i < 16; ++i) out.at[i] = static_cast<int32_t>(f(i));
  return out;
}
template <typename F>
static WEFT_INLINE Shorts EachShort(const F& f) {
  Shorts out;
  for (int i = 0; i < 16; ++i) out.at[i] = static_cast<uint16_t>(f(i));
  return out;
}
static WEFT_INLINE uint32_t Bits(const Words& a, int i) { return static_cast<uint32_t>(a.at[i]); }
static WEFT_INLINE bool Has(Mask mask, int i) { return (mask >> i & 1) != 0; }

static WEFT_EMULATED Floats ZeroFloats() { return {}; }
static WEFT_EMULATED Words ZeroWords() { return {}; }
static WEFT_EMULATED Floats LoadFloats(const float* p) {
  return EachFloat([&](int i) { return p[i]; });
}
static WEFT_EMULATED void StoreFloats(float* p, Floats x) { std::memcpy(p, x.at, 64); }
static WEFT_EMULATED Floats BroadcastFloat(const void* p) {
  float x;
  std::memcpy(&x, p, 4);
  return EachFloat([&](int) { return x; });
}
static WEFT_EMULATED Words LoadWords(const void* p) {
  Words out;
  std::memcpy(out.at, p, 64);
  return out;
}
static WEFT_EMULATED Words SetWords(int32_t x) {
  return EachWord([&](int) { return x; });
}
static WEFT_EMULATED Words BroadcastWord(const void* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return SetWords(x);
}
static WEFT_EMULATED Words SetBytes(int x) {
  return SetWords(static_cast<int32_t>(static_cast<uint32_t>(x & 255) * 0x01010101u));
}
static WEFT_EMULATED Words And(Words a, Words b) {
  return EachWord([&](int i) { return a.at[i] & b.at[i]; });
}
static WEFT_EMULATED Words Or(Words a, Words b) {
  return EachWord([&](int i) { return a.at[i] | b.at[i]; });
}
static WEFT_EMULATED Words Xor(Words a, Words b) {
  return EachWord([&](int i) { return a.at[i] ^ b.at[i]; });
}
static WEFT_EMULATED Words ShiftLeft(Words a, unsigned n) {
  return EachWord([&](int i) { return Bits(a, i) << n; });
}
static WEFT_EMULATED Words ShiftRight(Words a, unsigned n) {
  return EachWord([&](int i) { return Bits(a, i) >> n; });
}
static WEFT_EMULATED void StoreWords(void* p, const Words& x) { std::memcpy(p, x.at, 64); }
static WEFT_EMULATED Words SubtractBytes(const Words& a, const Words& b) {
  Words out;
  const auto* x = reinterpret_cast<const uint8_t*>(a.at);
  const auto* y = reinterpret_cast<const uint8_t*>(b.at);
  auto* z = reinterpret_cast<uint8_t*>(out.at);
  for (int i = 0; i < 64; ++i) z[i] = static_cast<uint8_t>(x[i] - y[i]);
  return out;
}
static WEFT_EMULATED Words Subtract(Words a, Words b) {
  return EachWord([&](int i) { return Bits(a, i) - Bits(b, i); });
}
static WEFT_EMULATED Words ToWords(const Floats& a) {
  return EachWord([&](int i) { return _mm_cvtss_si32(_mm_set_ss(a.at[i])); });
}
static WEFT_EMULATED Words JoinHalves(const Words& low, const Words& high) {
  return EachWord([&](int i) { return (Bits(low, i) & 0xffffu) | (Bits(high, i) & 0xffff0000u); });
}
static WEFT_EMULATED void StoreBytesOfHalves(void* p, const Words& a) {
  for (int i = 0; i < 32; ++i) {
    static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(Bits(a, i / 2) >> (i % 2 * 16));
  }
}
static WEFT_EMULATED void StoreBytes(void* p, const Words& a) {
  for (int i = 0; i < 16; ++i) static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(a.at[i]);
}
static WEFT_EMULATED Floats ToFloats(Words a) {
  return EachFloat([&](int i) { return static_cast<float>(a.at[i]); });
}
static WEFT_EMULATED Words FloatBits(Floats a) { return LoadWords(a.at); }
static WEFT_EMULATED Floats BitsToFloats(Words a) {
  Floats out;
  std::memcpy(out.at, a.at, 64);
  return out;
}
static WEFT_EMULATED Words Add(Words a, Words b) {
  return EachWord([&](int i) { return Bits(a, i) + Bits(b, i); });
}
static WEFT_EMULATED Floats Add(Floats a, Floats b) {
  return EachFloat([&](int i) { return a.at[i] + b.at[i]; });
}
static WEFT_EMULATED Floats Multiply(Floats a, Floats b) {
  return EachFloat([&](int i) { return a.at[i] * b.at[i]; });
}
static WEFT_EMULATED Floats Fma(Floats a, Floats b, Floats c) {
  return EachFloat([&](int i) { return __builtin_fmaf(a.at[i], b.at[i], c.at[i]); });
}
static WEFT_EMULATED float Largest(Floats a) {
  float largest = a.at[0];
  for (float x : a.at) largest = x > largest ? x : largest;
  return largest;
}
static WEFT_EMULATED F8 LowHalf(const Floats& a) { return F8::Load(a.at); }
static WEFT_EMULATED F8 HighHalf(const Floats& a) { return F8::Load(a.at + 8); }
static WEFT_EMULATED Floats Select(Mask mask, Floats yes, Floats no) {
  return EachFloat([&](int i) { return Has(mask, i) ? yes.at[i] : no.at[i]; });
}
static WEFT_EMULATED Floats LoadFloats(Mask mask, const float* p) {
  return EachFloat([&](int i) { return Has(mask, i) ? p[i] : 0.0f; });
}
static WEFT_EMULATED void StoreFloats(Mask mask, float* p, Floats x) {
  for (int i = 0; i < 16; ++i) {
    if (Has(mask, i)) p[i] = x.at[i];
  }
}
static WEFT_EMULATED Words LoadWords(Mask mask, const void* p) {
  Words out = {};
  for (int i = 0; i < 16; ++i) {
    if (Has(mask, i)) std::memcpy(out.at + i, static_cast<const std::byte*>(p) + 4 * i, 4);
  }
  return out;
}
static WEFT_EMULATED Shorts LoadShorts(const void* p) {
  Shorts out;
  std::memcpy(out.at, p, 32);
  return out;
}
static WEFT_EMULATED Shorts LoadShorts(Mask mask, const void* p) {
  Shorts out = {};
  for (int i = 0; i < 16; ++i) {
    if (Has(mask, i)) std::memcpy(out.at + i, static_cast<const std::byte*>(p) + 2 * i, 2);
  }
  return out;
}
static WEFT_EMULATED void StoreShorts(void* p, Shorts x) { std::memcpy(p, x.at, 32); }
static WEFT_EMULATED void StoreShorts(Mask mask, void* p, Shorts x) {
  for (int i = 0; i < 16; ++i) {
    if (Has(mask, i)) std::memcpy(static_cast<std::byte*>(p) + 2 * i, x.at + i, 2);
  }
}
static WEFT_EMULATED Words Widen(Shorts a) {
  return EachWord([&](int i) { return a.at[i]; });
}
static WEFT_EMULATED Floats LoadHalves(const void* p) {
  return EachFloat([&](int i) {
    F16 half;
    std::memcpy(&half.bits, static_cast<const std::byte*>(p) + 2 * i, 2);
    return ToFloat(half);
  });
}
static WEFT_EMULATED Words LoadUnsignedBytes(const void* p) {
  return EachWord([&](int i) { return static_cast<const uint8_t*>(p)[i]; });
}
static WEFT_EMULATED Words LoadSignedBytes(const void* p) {
  return EachWord([&](int i) { return static_cast<const int8_t*>(p)[i]; });
}
static WEFT_EMULATED Shorts RoundToBf16(Floats a) {
  return EachShort([&](int i) {
    uint32_t bits;
    std::memcpy(&bits, a.at + i, 4);
    const bool denormal = (bits & 0x7f800000u) == 0;
    return denormal ? bits >> 16 & 0x8000u : ToBf16(a.at[i]).bits;
  });
}
static WEFT_EMULATED Floats DotBf16(Floats acc, Words w, Words x) {
  return EachFloat([&](int i) {
    const auto even = [](uint32_t pair) { return ToFloat(Bf16{static_cast<uint16_t>(pair)}); };
    const auto odd = [](uint32_t pair) { return ToFloat(Bf16{static_cast<uint16_t>(pair >> 16)}); };
    const float first = __builtin_fmaf(odd(Bits(w, i)), odd(Bits(x, i)), acc.at[i]);
    return __builtin_fmaf(even(Bits(w, i)), even(Bits(x, i)), first);
  });
}
static WEFT_EMULATED Words DotInt8(Words acc, Words w, Words x) {
  return EachWord([&](int i) {
    int32_t sum = acc.at[i];
    for (int b = 0; b < 4; ++b) {
      sum += static_cast<uint8_t>(Bits(w, i) >> (8 * b)) *
             static_cast<int8_t>(static_cast<uint8_t>(Bits(x, i) >> (8 * b)));
    }
    return sum;
  });
}

// The register of simd/vec.h of this width: the formulas of simd/math.h over emulated lanes.
struct F16x {
  static constexpr int kLanes = 16;
  Floats v;

  template <typename F>
  static WEFT_INLINE F16x Each(const F& f) {
    return {EachFloat([&](int i) { return f(i).v; })};
  }
  WEFT_INLINE F1 lane(int i) const { return {v.at[i]}; }

  static WEFT_EMULATED F16x Set(float x) { return {BroadcastFloat(&x)}; }
  static WEFT_EMULATED F16x Zero() { return {ZeroFloats()}; }
  static WEFT_EMULATED F16x Load(const float* p) { return {LoadFloats(p)}; }
  WEFT_EMULATED void Store(float* p) const { StoreFloats(p, v); }
  friend WEFT_EMULATED F16x operator+(const F16x& a, const F16x& b) {
    return Each([&](int i) { return a.lane(i) + b.lane(i); });
  }
  friend WEFT_EMULATED F16x operator-(const F16x& a, const F16x& b) {
    return Each([&](int i) { return a.lane(i) - b.lane(i); });
  }
  friend WEFT_EMULATED F16x operator*(const F16x& a, const F16x& b) {
    return Each([&](int i) { return a.lane(i) * b.lane(i); });
  }
  friend WEFT_EMULATED F16x operator/(const F16x& a, const F16x& b) {
    return Each([&](int i) { return a.lane(i) / b.lane(i); });
  }
  static WEFT_EMULATED F16x Fma(const F16x& a, const F16x& b, const F16x& c) {
    return Each([&](int i) { return F1::Fma(a.lane(i), b.lane(i), c.lane(i)); });
  }
  static WEFT_EMULATED F16x Max(const F16x& a, const F16x& b) {
    return Each([&](int i) { return F1::Max(a.lane(i), b.lane(i)); });
  }
  static WEFT_EMULATED F16x AddExponent(const F16x& p, const F16x& t) {
    return Each([&](int i) { return F1::AddExponent(p.lane(i), t.lane(i)); });
  }
  static WEFT_EMULATED F16x IfLess(const F16x& a, const F16x& b, const F16x& yes, const F16x& no) {
    return Each([&](int i) { return F1::IfLess(a.lane(i), b.lane(i), yes.lane(i), no.lane(i)); });
  }
  static WEFT_EMULATED F16x IfNaN(const F16x& a, const F16x& yes, const F16x& no) {
    return Each([&](int i) { return F1::IfNaN(a.lane(i), yes.lane(i), no.lane(i)); });
  }
};

}  // namespace weft::kernels::avx512_emulated

#endif

namespace weft::kernels {
#ifndef WEFT_EMULATE_AVX512
namespace v512 = avx512_native;
#else
namespace v512 = avx512_emulated;
#endif

// The first n lanes; n may be below 0 or above 16.
static WEFT_INLINE v512::Mask FirstLanes(int64_t n) {
  return static_cast<v512::Mask>(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u);
}

// Elements in the model dtype, as simd/storage.h has them 8 wide; bf16 is rounded by the
// instruction (rms_norm: 1.3 to 1.5 times as fast as by integer operations), so that takes an
// AVX-512 with BF16.
static WEFT_INLINE v512::F16x Load16(const float* p) { return {v512::LoadFloats(p)}; }
static WEFT_INLINE v512::F16x Load16(v512::Mask mask, const float* p) {
  return {v512::LoadFloats(mask, p)};
}
static WEFT_INLINE v512::F16x FromBf16(v512::Shorts bits) {
  return {v512::BitsToFloats(v512::ShiftLeft(v512::Widen(bits), 16))};
}
static WEFT_INLINE v512::F16x Load16(const Bf16* p) { return FromBf16(v512::LoadShorts(p)); }
static WEFT_INLINE v512::F16x Load16(v512::Mask mask, const Bf16* p) {
  return FromBf16(v512::LoadShorts(mask, p));
}

static WEFT_INLINE void Store16(float* p, v512::F16x x) { v512::StoreFloats(p, x.v); }
static WEFT_INLINE void Store16(v512::Mask mask, float* p, v512::F16x x) {
  v512::StoreFloats(mask, p, x.v);
}
#if defined(__AVX512BF16__) || defined(WEFT_EMULATE_AVX512)
static WEFT_INLINE void Store16(Bf16* p, v512::F16x x) {
  v512::StoreShorts(p, v512::RoundToBf16(x.v));
}
static WEFT_INLINE void Store16(v512::Mask mask, Bf16* p, v512::F16x x) {
  v512::StoreShorts(mask, p, v512::RoundToBf16(x.v));
}
#endif
}  // namespace weft::kernels
