// Codes and scales of block formats out of a panel, AVX2. Layout: panel_layout.h.
#pragma once

#include <immintrin.h>

#include "kernels/matmul/for_format.h"
#include "kernels/matmul/panel_layout.h"
#include "kernels/simd/vec.h"

namespace weft::kernels {

static WEFT_INLINE __m256i LoadBytes32(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Quad `quad` of a step, outputs 8*half..+7: byte 4o + b is the code of input 4*quad + b of output
// o, unsigned as stored (Q8_0: signed). `quad` is a constant after unrolling.
template <DType kType>
static WEFT_INLINE __m256i Quad(const std::byte* step, int quad, int half) {
  constexpr BlockLayout kLayout = BlockLayoutOf(kType);
  if constexpr (kLayout.bits == 8) return LoadBytes32(step + quad * 64 + half * 32);
  const __m256i bytes = LoadBytes32(step + kLayout.high_bytes + quad % 4 * 64 + half * 32);
  const __m256i low =
      _mm256_and_si256(quad < 4 ? bytes : _mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
  if constexpr (kLayout.bits == 4) return low;
  // The high bits go to bit 4; what a 16-bit shift drags in from the neighbour is masked away.
  const int at = kLayout.bits == 5 ? quad : 2 * (quad % 4);
  const int offset = kLayout.bits == 5 ? 0 : quad / 4 * 64;
  const __m256i high = LoadBytes32(step + offset + half * 32);
  const __m256i shifted =
      at <= 4 ? _mm256_slli_epi16(high, 4 - at) : _mm256_srli_epi16(high, at - 4);
  const __m256i mask = _mm256_set1_epi8(kLayout.bits == 5 ? 0x10 : 0x30);
  return _mm256_or_si256(low, _mm256_and_si256(shifted, mask));
}

static WEFT_INLINE __m256 Halves8(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

static WEFT_INLINE __m128i LoadBytes8(const std::byte* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}

// Scales of one step, outputs 8*half..+7.
struct StepScales {
  __m256 scale[2];  // inputs 0..15 and 16..31; equal but for Q6_K
  __m256 min;
};

template <DType kType>
static WEFT_INLINE StepScales ScalesOf(const std::byte* header, int sub, int half) {
  StepScales out;
  const __m256 d = Halves8(header + half * 16);
  out.scale[0] = out.scale[1] = d;
  out.min = _mm256_setzero_ps();
  if constexpr (kType == DType::kQ4_1 || kType == DType::kQ5_1) {
    out.min = Halves8(header + 32 + half * 16);
  } else if constexpr (kType == DType::kQ4_K || kType == DType::kQ5_K) {
    const __m256i low = _mm256_cvtepu8_epi32(LoadBytes8(header + 64 + sub * 16 + half * 8));
    const __m256i high =
        _mm256_srl_epi32(_mm256_cvtepu8_epi32(LoadBytes8(header + 192 + sub / 2 * 16 + half * 8)),
                         _mm_cvtsi32_si128(sub % 2 * 4));
    const __m256i three = _mm256_set1_epi32(3);
    const __m256i sc = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                       _mm256_slli_epi32(_mm256_and_si256(high, three), 4));
    const __m256i m =
        _mm256_or_si256(_mm256_srli_epi32(low, 4),
                        _mm256_slli_epi32(_mm256_and_si256(_mm256_srli_epi32(high, 2), three), 4));
    out.scale[0] = out.scale[1] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sc));
    const __m256 product = _mm256_mul_ps(Halves8(header + 32 + half * 16), _mm256_cvtepi32_ps(m));
    out.min = _mm256_xor_ps(product, _mm256_set1_ps(-0.0f));
  } else if constexpr (kType == DType::kQ6_K) {
    for (int i = 0; i < 2; ++i) {
      const __m128i sc = LoadBytes8(header + 32 + (sub * 2 + i) * 16 + half * 8);
      out.scale[i] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(sc)));
    }
  }
  return out;
}

}  // namespace weft::kernels
