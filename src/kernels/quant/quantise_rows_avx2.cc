// quantise_rows, AVX2: one block of 32 in four registers. The maximum of |x| is taken over the bits
// as integers, like the contract: any order gives the same, and NaN and infinity come out on top.
#include <immintrin.h>

#include "kernels/quant/quantised_rows.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {

std::string RefuseQuantiseRows(const QuantiseRowsArgs& a);

namespace {

WEFT_INLINE int32_t LargestMagnitudeBits(const F8* x) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i m = _mm256_and_si256(_mm256_castps_si256(x[0].v), mask);
  for (int i = 1; i < 4; ++i) {
    m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(x[i].v), mask));
  }
  __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
  return _mm_cvtsi128_si32(h);
}

// `rounded`: 32 values in [-127, 127], so that no pack saturates.
WEFT_INLINE void StoreBlock(const __m256i* rounded, int8_t* q, int32_t* sum) {
  const __m256i low = _mm256_packs_epi32(rounded[0], rounded[1]);
  const __m256i high = _mm256_packs_epi32(rounded[2], rounded[3]);
  // The packs work per 128-bit half: dwords come out as 0 2 4 6 | 1 3 5 7.
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high),
                                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  const __m256i all = _mm256_add_epi32(_mm256_add_epi32(rounded[0], rounded[1]),
                                       _mm256_add_epi32(rounded[2], rounded[3]));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  *sum = _mm_cvtsi128_si32(s);
}

template <typename T>
WEFT_INLINE void QuantiseBlock(const T* x, int8_t* q, float* d, int32_t* sum) {
  constexpr int32_t kInfinityBits = 0x7f800000;
  constexpr int32_t kNanBits = 0x7fc00000;
  constexpr int32_t kSmallestNormalBits = 0x00800000;
  F8 v[4];
  for (int i = 0; i < 4; ++i) v[i] = Load8(x + i * 8);
  const int32_t amax_bits = LargestMagnitudeBits(v);
  float amax;
  std::memcpy(&amax, &amax_bits, 4);
  float scale = amax / 127.0f;
  int32_t scale_bits;
  std::memcpy(&scale_bits, &scale, 4);
  const bool finite = amax_bits < kInfinityBits;
  if (!finite || scale_bits < kSmallestNormalBits) [[unlikely]] {
    const int32_t bits = finite ? 0 : kNanBits;
    std::memcpy(d, &bits, 4);
    *sum = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_setzero_si256());
    return;
  }
  *d = scale;
  const F8 inverse = F8::Set(127.0f / amax);
  __m256i rounded[4];
  for (int i = 0; i < 4; ++i) rounded[i] = _mm256_cvtps_epi32((v[i] * inverse).v);
  StoreBlock(rounded, q, sum);
}

template <typename T>
WEFT_INLINE void QuantiseRow(const QuantiseRowsArgs& a, int64_t row) {
  const int64_t blocks = a.out.k / kQuantBlock;
  const T* x = static_cast<const T*>(a.x.data) + row * a.x.stride;
  for (int64_t block = 0; block < blocks; ++block) {
    QuantiseBlock(x + block * kQuantBlock, a.out.q + row * a.out.k + block * kQuantBlock,
                  a.out.d + row * blocks + block, a.out.sum + row * blocks + block);
  }
}

void Run(const QuantiseRowsArgs& a, Slice slice, std::byte*) {
  for (int64_t row = slice.begin; row < slice.end; ++row) {
    if (a.x.dtype == DType::kF32) {
      QuantiseRow<float>(a, row);
    } else {
      QuantiseRow<Bf16>(a, row);
    }
  }
}

int64_t Units(const QuantiseRowsArgs& a) { return a.out.rows; }

}  // namespace

extern const Kernel<QuantiseRowsArgs> kQuantiseRowsAvx2;
const Kernel<QuantiseRowsArgs> kQuantiseRowsAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = RefuseQuantiseRows, .units = Units, .run = Run};

}  // namespace weft::kernels
