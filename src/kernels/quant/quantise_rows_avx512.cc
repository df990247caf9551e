// quantise_rows with AVX-512: up to 64 blocks in four loops (largest |x|, scales, codes, sums), so
// that 16 blocks share their divisions and none waits for its own. bf16 is taken apart into even
// and odd elements, which needs no shuffle, and comes together again as int16.
#include <cstring>

#include "kernels/quant/quantised_rows.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {

std::string RefuseQuantiseRows(const QuantiseRowsArgs& a);

namespace {

using V = v512::F16x;

constexpr int kBlocks = 64;

// The bits of the largest |x|, as a float's: NaN and infinity come out on top.
WEFT_INLINE uint32_t LargestMagnitudeBits(const float* x) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i m = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(Load8(x + i * 8).v), mask));
  }
  __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(h));
}

WEFT_INLINE uint32_t LargestMagnitudeBits(const Bf16* x) {
  const auto* words = reinterpret_cast<const __m256i*>(x);
  const __m256i mask = _mm256_set1_epi16(0x7fff);
  const __m256i m = _mm256_max_epu16(_mm256_and_si256(_mm256_loadu_si256(words), mask),
                                     _mm256_and_si256(_mm256_loadu_si256(words + 1), mask));
  const __m128i h = _mm_max_epu16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  // There is a horizontal minimum and no maximum.
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(h, _mm_set1_epi16(-1)));
  return (~static_cast<uint32_t>(_mm_cvtsi128_si32(least)) & 0xffffu) << 16;
}

WEFT_INLINE void WriteCodes(const Bf16* x, V factor, int8_t* q) {
  const v512::Words pairs = v512::LoadWords(x);
  const v512::Words high = v512::SetWords(static_cast<int32_t>(0xffff0000u));
  const V even = {v512::BitsToFloats(v512::ShiftLeft(pairs, 16))};
  const V odd = {v512::BitsToFloats(v512::And(pairs, high))};
  const v512::Words codes = v512::JoinHalves(v512::ToWords((even * factor).v),
                                             v512::ShiftLeft(v512::ToWords((odd * factor).v), 16));
  v512::StoreBytesOfHalves(q, codes);
}

WEFT_INLINE void WriteCodes(const float* x, V factor, int8_t* q) {
  v512::StoreBytes(q, v512::ToWords((Load16(x) * factor).v));
  v512::StoreBytes(q + 16, v512::ToWords((Load16(x + 16) * factor).v));
}

// The sums of two blocks, from sums of q + 128.
WEFT_INLINE void WriteSums(const int8_t* q, int32_t* sum) {
  const auto* blocks = reinterpret_cast<const __m256i*>(q);
  const __m256i offset = _mm256_set1_epi8(-128);
  const auto quarters = [&](int block) WEFT_INLINED {
    return _mm256_sad_epu8(_mm256_xor_si256(_mm256_loadu_si256(blocks + block), offset),
                           _mm256_setzero_si256());
  };
  const __m256i both = _mm256_or_si256(quarters(0), _mm256_slli_epi64(quarters(1), 32));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
  s = _mm_sub_epi32(s, _mm_set1_epi32(128 * kQuantBlock));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(sum), s);
}

template <typename T>
WEFT_INLINE void QuantiseBlocks(const T* x, int blocks, int8_t* q, float* d, int32_t* sum) {
  alignas(64) uint32_t largest[kBlocks];
  alignas(64) float inverse[kBlocks];
  for (int b = 0; b < blocks; ++b) largest[b] = LargestMagnitudeBits(x + b * kQuantBlock);
  for (int b = blocks; b % 16 != 0; ++b) largest[b] = 0;
  const V nan = V::Set(__builtin_nanf(""));
  for (int b = 0; b < blocks; b += 16) {
    const V amax = {v512::BitsToFloats(v512::LoadWords(largest + b))};
    V scale = amax / V::Set(127.0f);
    scale = V::IfLess(scale, V::Set(0x1p-126f), V::Zero(), scale);
    scale = V::IfLess(amax, V::Set(__builtin_inff()), scale, nan);
    Store16(FirstLanes(blocks - b), d + b, scale);
    // Infinity times 0 is NaN, and as an int32 -2^31: what is kept of that is 0, as it should be.
    V::IfLess(V::Zero(), scale, V::Set(127.0f) / amax, V::Zero()).Store(inverse + b);
  }
  for (int b = 0; b < blocks; ++b) {
    WriteCodes(x + b * kQuantBlock, V::Set(inverse[b]), q + b * kQuantBlock);
  }
  int b = 0;
  for (; b + 2 <= blocks; b += 2) WriteSums(q + b * kQuantBlock, sum + b);
  if (b < blocks) {
    int8_t last[2 * kQuantBlock] = {};
    int32_t sums[2];
    std::memcpy(last, q + b * kQuantBlock, kQuantBlock);
    WriteSums(last, sums);
    sum[b] = sums[0];
  }
}

template <typename T>
void QuantiseRow(const QuantiseRowsArgs& a, int64_t row) {
  const int64_t blocks = a.out.k / kQuantBlock;
  const T* x = a.x.row<const T>(row);
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    const auto count = static_cast<int>(blocks - b < kBlocks ? blocks - b : kBlocks);
    QuantiseBlocks(x + b * kQuantBlock, count, a.out.q + row * a.out.k + b * kQuantBlock,
                   a.out.d + row * blocks + b, a.out.sum + row * blocks + b);
  }
}

void Run(const QuantiseRowsArgs& a, Slice slice, std::byte*) {
  for (int64_t row = slice.begin; row < slice.end; ++row) {
    a.x.dtype == DType::kF32 ? QuantiseRow<float>(a, row) : QuantiseRow<Bf16>(a, row);
  }
}

int64_t Units(const QuantiseRowsArgs& a) { return a.out.rows; }

}  // namespace

extern const Kernel<QuantiseRowsArgs> kQuantiseRowsAvx512;
const Kernel<QuantiseRowsArgs> kQuantiseRowsAvx512{.name = "avx512",
                                                   .isa = Isa::kAvx512,
                                                   .refuse = RefuseQuantiseRows,
                                                   .units = Units,
                                                   .run = Run};

}  // namespace weft::kernels
