// The peaks of AVX2. bf16 weights have no instruction of their own: a pair is split by a blend and
// a shift and goes into six rows' FMAs, as in the matmul tile. int8 weights are widened to int16
// once and meet int16 activations in vpmaddwd; 4-bit codes fit vpmaddubsw with eight sums in int16.
#include <immintrin.h>

#include "kernels/peak/peak.h"
#include "kernels/simd/accumulate.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

constexpr int kChains = 12;

WEFT_INLINE uint64_t Count(__m256 sum) {
  float lanes[8];
  _mm256_storeu_ps(lanes, sum);
  uint64_t count = 0;
  for (float lane : lanes) count += static_cast<uint64_t>(lane);
  return count;
}

WEFT_INLINE uint64_t Count(__m256i sum) {
  int32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
  uint64_t count = 0;
  for (int32_t lane : lanes) count += static_cast<uint64_t>(lane);
  return count;
}

uint64_t Floats(const std::byte*, int64_t rounds) {
  __m256 sum[kChains];
  Unroll<kChains>([&](auto i) WEFT_INLINED { sum[i.value] = _mm256_setzero_ps(); });
  __m256 one = _mm256_set1_ps(1.0f);
  asm volatile("" : "+x"(one));
  for (int64_t r = 0; r < rounds; ++r) {
    Unroll<kChains>([&](auto i) WEFT_INLINED { Accumulate(sum[i.value], one, one); });
  }
  uint64_t count = 0;
  Unroll<kChains>([&](auto i) WEFT_INLINED { count += Count(sum[i.value]); });
  return count;
}

uint64_t Bf16Pairs(const std::byte*, int64_t rounds) {
  __m256 sum[kChains];
  Unroll<kChains>([&](auto i) WEFT_INLINED { sum[i.value] = _mm256_setzero_ps(); });
  __m256 one = _mm256_set1_ps(1.0f);
  asm volatile("" : "+x"(one));
  const __m256 pairs = _mm256_castsi256_ps(_mm256_set1_epi32(0x3f803f80));  // (1, 1)
  const volatile __m256* at = &pairs;  // in memory: sixteen registers are all taken
  for (int64_t r = 0; r < rounds; ++r) {
    Unroll<2>([&](auto which) WEFT_INLINED {
      __m256 w[2];
      Unroll<2>([&](auto half) WEFT_INLINED {
        if constexpr (which.value == 0) {
          w[half.value] = OddOfPairs(const_cast<const __m256*>(at));
        } else {
          w[half.value] = EvenOfPairs(const_cast<const __m256*>(at));
        }
      });
      Unroll<kChains>([&](auto i) WEFT_INLINED { Accumulate(sum[i.value], w[i.value % 2], one); });
    });
  }
  uint64_t count = 0;
  Unroll<kChains>([&](auto i) WEFT_INLINED { count += Count(sum[i.value]); });
  return count;
}

uint64_t Int8(const std::byte*, int64_t rounds) {
  __m256i sum[kChains];
  Unroll<kChains>([&](auto i) WEFT_INLINED { sum[i.value] = _mm256_setzero_si256(); });
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t r = 0; r < rounds; ++r) {
    Unroll<kChains>([&](auto i) WEFT_INLINED {
      __m256i w = ones;
      asm volatile("" : "+x"(w));
      AddInt32(sum[i.value], _mm256_madd_epi16(w, ones));
    });
  }
  uint64_t count = 0;
  Unroll<kChains>([&](auto i) WEFT_INLINED { count += Count(sum[i.value]); });
  return count;
}

// Eight products of each lane in int16, then widened.
uint64_t Int4(const std::byte*, int64_t rounds) {
  constexpr int kRows = 6;
  __m256i sum[kRows];
  Unroll<kRows>([&](auto i) WEFT_INLINED { sum[i.value] = _mm256_setzero_si256(); });
  const __m256i ones8 = _mm256_set1_epi8(1);
  const __m256i ones16 = _mm256_set1_epi16(1);
  for (int64_t r = 0; r < rounds; ++r) {
    __m256i short_sum[kRows];
    Unroll<8>([&](auto quad) WEFT_INLINED {
      Unroll<kRows>([&](auto i) WEFT_INLINED {
        __m256i w = ones8;
        asm volatile("" : "+x"(w));
        const __m256i product = _mm256_maddubs_epi16(w, ones8);
        if constexpr (quad.value == 0) {
          short_sum[i.value] = product;
        } else {
          AddInt16(short_sum[i.value], product);
        }
      });
    });
    Unroll<kRows>([&](auto i) WEFT_INLINED {
      AddInt32(sum[i.value], _mm256_madd_epi16(short_sum[i.value], ones16));
    });
  }
  uint64_t count = 0;
  Unroll<kRows>([&](auto i) WEFT_INLINED { count += Count(sum[i.value]); });
  return count;
}

uint64_t Read(const std::byte* data, int64_t bytes) {
  __m256i sum[8];
  Unroll<8>([&](auto i) WEFT_INLINED { sum[i.value] = _mm256_setzero_si256(); });
  for (int64_t at = 0; at < bytes; at += 256) {
    Unroll<4>([&](auto i) WEFT_INLINED {
      _mm_prefetch(reinterpret_cast<const char*>(data + at + 4096 + i.value * 64), _MM_HINT_T0);
    });
    Unroll<8>([&](auto i) WEFT_INLINED {
      const auto* p = reinterpret_cast<const __m256i*>(data + at + i.value * 32);
      sum[i.value] = _mm256_xor_si256(sum[i.value], _mm256_load_si256(p));
    });
  }
  Unroll<7>([&](auto i) WEFT_INLINED { sum[0] = _mm256_xor_si256(sum[0], sum[i.value + 1]); });
  uint64_t words[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), sum[0]);
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

}  // namespace

extern const Peak kPeakFloat32Avx2, kPeakBf16Avx2, kPeakInt8Avx2, kPeakInt4Avx2, kPeakReadAvx2;
const Peak kPeakFloat32Avx2{PeakKind::kFloat32, Isa::kAvx2, "avx2 vfmadd231ps", kChains * 8,
                            Floats};
const Peak kPeakBf16Avx2{PeakKind::kBf16, Isa::kAvx2, "avx2 widen, vfmadd231ps", kChains * 16,
                         Bf16Pairs};
const Peak kPeakInt8Avx2{PeakKind::kInt8, Isa::kAvx2, "avx2 vpmaddwd, vpaddd", kChains * 16, Int8};
const Peak kPeakInt4Avx2{PeakKind::kInt4, Isa::kAvx2, "avx2 vpmaddubsw, vpaddw", 6 * 8 * 32, Int4};
const Peak kPeakReadAvx2{PeakKind::kRead, Isa::kAvx2, "avx2 loads", 1, Read};

}  // namespace weft::kernels
