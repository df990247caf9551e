// The peaks of AVX-512: fp32 FMA, vdpbf16ps, vpdpbusd, and reading by whole lines.
#include <immintrin.h>

#include "kernels/peak/peak.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

constexpr int kChains = 24;

// Captures are named where only an asm statement uses them: Clang 14 does not see those.

WEFT_INLINE uint64_t Count(__m512 sum) {
  float lanes[16];
  _mm512_storeu_ps(lanes, sum);
  uint64_t count = 0;
  for (float lane : lanes) count += static_cast<uint64_t>(lane);
  return count;
}

uint64_t Floats(const std::byte*, int64_t rounds) {
  __m512 sum[kChains];
  Unroll<kChains>([&](auto i) WEFT_INLINED { sum[i.value] = _mm512_setzero_ps(); });
  __m512 one = _mm512_set1_ps(1.0f);
  asm volatile("" : "+v"(one));
  for (int64_t r = 0; r < rounds; ++r) {
    Unroll<kChains>([&sum, &one](auto i) WEFT_INLINED {
      asm("vfmadd231ps %1, %1, %0" : "+v"(sum[i.value]) : "v"(one));
    });
  }
  uint64_t count = 0;
  Unroll<kChains>([&](auto i) WEFT_INLINED { count += Count(sum[i.value]); });
  return count;
}

uint64_t Bf16Pairs(const std::byte*, int64_t rounds) {
  __m512 sum[kChains];
  Unroll<kChains>([&](auto i) WEFT_INLINED { sum[i.value] = _mm512_setzero_ps(); });
  __m512i one = _mm512_set1_epi32(0x3f803f80);
  asm volatile("" : "+v"(one));
  for (int64_t r = 0; r < rounds; ++r) {
    Unroll<kChains>([&sum, &one](auto i) WEFT_INLINED {
      asm("vdpbf16ps %1, %1, %0" : "+v"(sum[i.value]) : "v"(one));
    });
  }
  uint64_t count = 0;
  Unroll<kChains>([&](auto i) WEFT_INLINED { count += Count(sum[i.value]); });
  return count;
}

uint64_t Int8(const std::byte*, int64_t rounds) {
  __m512i sum[kChains];
  Unroll<kChains>([&](auto i) WEFT_INLINED { sum[i.value] = _mm512_setzero_si512(); });
  __m512i one = _mm512_set1_epi8(1);
  asm volatile("" : "+v"(one));
  for (int64_t r = 0; r < rounds; ++r) {
    Unroll<kChains>([&sum, &one](auto i) WEFT_INLINED {
      asm("vpdpbusd %1, %1, %0" : "+v"(sum[i.value]) : "v"(one));
    });
  }
  uint64_t count = 0;
  Unroll<kChains>([&](auto i) WEFT_INLINED {
    int32_t lanes[16];
    _mm512_storeu_si512(lanes, sum[i.value]);
    for (int32_t lane : lanes) count += static_cast<uint64_t>(lane);
  });
  return count;
}

uint64_t Read(const std::byte* data, int64_t bytes) {
  __m512i sum[4];
  Unroll<4>([&](auto i) WEFT_INLINED { sum[i.value] = _mm512_setzero_si512(); });
  for (int64_t at = 0; at < bytes; at += 256) {
    Unroll<4>([&](auto i) WEFT_INLINED {
      sum[i.value] = _mm512_xor_si512(sum[i.value], _mm512_load_si512(data + at + i.value * 64));
    });
  }
  uint64_t words[8];
  _mm512_storeu_si512(
      words, _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3])));
  uint64_t all = 0;
  for (uint64_t word : words) all ^= word;
  return all;
}

}  // namespace

extern const Peak kPeakFloat32Avx512, kPeakBf16Avx512, kPeakInt8Avx512, kPeakReadAvx512;
const Peak kPeakFloat32Avx512{PeakKind::kFloat32, Isa::kAvx512, "avx512 vfmadd231ps", kChains * 16,
                              Floats};
const Peak kPeakBf16Avx512{PeakKind::kBf16, Isa::kAvx512Bf16, "avx512 vdpbf16ps", kChains * 32,
                           Bf16Pairs};
const Peak kPeakInt8Avx512{PeakKind::kInt8, Isa::kAvx512Vnni, "avx512 vpdpbusd", kChains * 64,
                           Int8};
const Peak kPeakReadAvx512{PeakKind::kRead, Isa::kAvx512, "avx512 loads", 1, Read};

}  // namespace weft::kernels
