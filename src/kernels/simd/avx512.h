// 512-bit registers under names of our own: one intrinsic per function.
//
// With WEFT_EMULATE_AVX512 the same names are plain loops over arrays. Tests include a *_avx512.cc
// in that form and compare it with the contract on CPUs that cannot run the real one, so that what
// remains unproven there is one intrinsic per line below. The two forms live in two namespaces, so
// a program may hold both.
//
// vdpbf16ps does not look at MXCSR: it rounds to nearest even and flushes denormals, always. The
// emulation does so because every compute thread is set that way (kernels/float_env.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bf16.h"
#include "kernels/simd/vec.h"

#ifndef WEFT_EMULATE_AVX512

namespace weft::kernels::avx512_native {

using Floats = __m512;  // 16 floats
using Words = __m512i;  // 16 int32, 32 int16 or 64 bytes

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
static WEFT_INLINE Words FloatBits(Floats a) { return _mm512_castps_si512(a); }
static WEFT_INLINE Floats BitsToFloats(Words a) { return _mm512_castsi512_ps(a); }
static WEFT_INLINE Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
static WEFT_INLINE Floats Fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
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

namespace weft::kernels::avx512_emulated {

struct Floats {
  float at[16];
};
struct Words {
  int32_t at[16];
};

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
static WEFT_INLINE uint32_t Bits(const Words& a, int i) { return static_cast<uint32_t>(a.at[i]); }

static WEFT_INLINE Floats ZeroFloats() { return {}; }
static WEFT_INLINE Words ZeroWords() { return {}; }
static WEFT_INLINE Floats LoadFloats(const float* p) {
  return EachFloat([&](int i) { return p[i]; });
}
static WEFT_INLINE void StoreFloats(float* p, Floats x) { std::memcpy(p, x.at, 64); }
static WEFT_INLINE Floats BroadcastFloat(const void* p) {
  float x;
  std::memcpy(&x, p, 4);
  return EachFloat([&](int) { return x; });
}
static WEFT_INLINE Words LoadWords(const void* p) {
  Words out;
  std::memcpy(out.at, p, 64);
  return out;
}
static WEFT_INLINE Words SetWords(int32_t x) {
  return EachWord([&](int) { return x; });
}
static WEFT_INLINE Words BroadcastWord(const void* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return SetWords(x);
}
static WEFT_INLINE Words SetBytes(int x) {
  return SetWords(static_cast<int32_t>(static_cast<uint32_t>(x & 255) * 0x01010101u));
}
static WEFT_INLINE Words And(Words a, Words b) {
  return EachWord([&](int i) { return a.at[i] & b.at[i]; });
}
static WEFT_INLINE Words Or(Words a, Words b) {
  return EachWord([&](int i) { return a.at[i] | b.at[i]; });
}
static WEFT_INLINE Words Xor(Words a, Words b) {
  return EachWord([&](int i) { return a.at[i] ^ b.at[i]; });
}
static WEFT_INLINE Words ShiftLeft(Words a, unsigned n) {
  return EachWord([&](int i) { return Bits(a, i) << n; });
}
static WEFT_INLINE Words ShiftRight(Words a, unsigned n) {
  return EachWord([&](int i) { return Bits(a, i) >> n; });
}
static WEFT_INLINE void StoreWords(void* p, const Words& x) { std::memcpy(p, x.at, 64); }
static WEFT_INLINE Words SubtractBytes(const Words& a, const Words& b) {
  Words out;
  const auto* x = reinterpret_cast<const uint8_t*>(a.at);
  const auto* y = reinterpret_cast<const uint8_t*>(b.at);
  auto* z = reinterpret_cast<uint8_t*>(out.at);
  for (int i = 0; i < 64; ++i) z[i] = static_cast<uint8_t>(x[i] - y[i]);
  return out;
}
static WEFT_INLINE Words Subtract(Words a, Words b) {
  return EachWord([&](int i) { return Bits(a, i) - Bits(b, i); });
}
static WEFT_INLINE Floats ToFloats(Words a) {
  return EachFloat([&](int i) { return static_cast<float>(a.at[i]); });
}
static WEFT_INLINE Words FloatBits(Floats a) { return LoadWords(a.at); }
static WEFT_INLINE Floats BitsToFloats(Words a) {
  Floats out;
  std::memcpy(out.at, a.at, 64);
  return out;
}
static WEFT_INLINE Floats Multiply(Floats a, Floats b) {
  return EachFloat([&](int i) { return a.at[i] * b.at[i]; });
}
static WEFT_INLINE Floats Fma(Floats a, Floats b, Floats c) {
  return EachFloat([&](int i) { return __builtin_fmaf(a.at[i], b.at[i], c.at[i]); });
}
static WEFT_INLINE Floats LoadHalves(const void* p) {
  return EachFloat([&](int i) {
    F16 half;
    std::memcpy(&half.bits, static_cast<const std::byte*>(p) + 2 * i, 2);
    return ToFloat(half);
  });
}
static WEFT_INLINE Words LoadUnsignedBytes(const void* p) {
  return EachWord([&](int i) { return static_cast<const uint8_t*>(p)[i]; });
}
static WEFT_INLINE Words LoadSignedBytes(const void* p) {
  return EachWord([&](int i) { return static_cast<const int8_t*>(p)[i]; });
}
static WEFT_INLINE Floats DotBf16(Floats acc, Words w, Words x) {
  return EachFloat([&](int i) {
    const auto even = [](uint32_t pair) { return ToFloat(Bf16{static_cast<uint16_t>(pair)}); };
    const auto odd = [](uint32_t pair) { return ToFloat(Bf16{static_cast<uint16_t>(pair >> 16)}); };
    const float first = __builtin_fmaf(odd(Bits(w, i)), odd(Bits(x, i)), acc.at[i]);
    return __builtin_fmaf(even(Bits(w, i)), even(Bits(x, i)), first);
  });
}
static WEFT_INLINE Words DotInt8(Words acc, Words w, Words x) {
  return EachWord([&](int i) {
    int32_t sum = acc.at[i];
    for (int b = 0; b < 4; ++b) {
      sum += static_cast<uint8_t>(Bits(w, i) >> (8 * b)) *
             static_cast<int8_t>(static_cast<uint8_t>(Bits(x, i) >> (8 * b)));
    }
    return sum;
  });
}

}  // namespace weft::kernels::avx512_emulated

#endif

namespace weft::kernels {
#ifndef WEFT_EMULATE_AVX512
namespace v512 = avx512_native;
#else
namespace v512 = avx512_emulated;
#endif
}  // namespace weft::kernels
