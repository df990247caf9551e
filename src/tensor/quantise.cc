// The other direction of quant_format.h. Slow and plain: it makes test files, never weights.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"
#include "tensor/quant_format.h"

namespace weft {
namespace {

void PutHalf(uint8_t* p, F16 half) { std::memcpy(p, &half.bits, sizeof(half.bits)); }

// The smallest half that is not below x. REQUIRES: 0 <= x, and it fits.
F16 HalfAtLeast(float x) {
  F16 half = ToF16(x);
  if (ToFloat(half) < x) ++half.bits;
  return half;
}

int CeilDiv(float x, float step, int max) {
  if (step == 0.0f) return 0;
  return std::clamp(static_cast<int>(std::ceil(x / step)), 0, max);
}

void PutNibbles(const int* q, uint8_t* qs) {
  for (int j = 0; j < 16; ++j) qs[j] = static_cast<uint8_t>((q[j] & 15) | ((q[j + 16] & 15) << 4));
}

uint32_t FifthBits(const int* q) {
  uint32_t bits = 0;
  for (int j = 0; j < 32; ++j) bits |= static_cast<uint32_t>(q[j] >> 4) << j;
  return bits;
}

// Q4_0 (half = 8) and Q5_0 (half = 16): the value of largest magnitude is met exactly, at -half.
void QuantiseSymmetric(const float* x, int half, uint8_t* block) {
  float extreme = 0.0f;
  for (int j = 0; j < 32; ++j) {
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  }
  const float d = extreme / static_cast<float>(-half);
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  int q[32];
  for (int j = 0; j < 32; ++j) {
    q[j] = std::clamp(static_cast<int>(x[j] * inverse + static_cast<float>(half) + 0.5f), 0,
                      2 * half - 1);
  }
  PutHalf(block, ToF16(d));
  if (half == 16) {
    const uint32_t high = FifthBits(q);
    std::memcpy(block + 2, &high, sizeof(high));
  }
  PutNibbles(q, block + (half == 16 ? 6 : 2));
}

// Q4_1 (q_max = 15) and Q5_1 (q_max = 31).
void QuantiseWithMin(const float* x, int q_max, uint8_t* block) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float d = (*high - *low) / static_cast<float>(q_max);
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  int q[32];
  for (int j = 0; j < 32; ++j) {
    q[j] = std::clamp(static_cast<int>((x[j] - *low) * inverse + 0.5f), 0, q_max);
  }
  PutHalf(block, ToF16(d));
  PutHalf(block + 2, ToF16(*low));
  if (q_max == 31) {
    const uint32_t bits = FifthBits(q);
    std::memcpy(block + 4, &bits, sizeof(bits));
  }
  PutNibbles(q, block + (q_max == 31 ? 8 : 4));
}

void QuantiseQ8(const float* x, uint8_t* block) {
  float extreme = 0.0f;
  for (int j = 0; j < 32; ++j) extreme = std::max(extreme, std::fabs(x[j]));
  const float d = extreme / 127.0f;
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  PutHalf(block, ToF16(d));
  for (int j = 0; j < 32; ++j) {
    block[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(std::lround(x[j] * inverse)));
  }
}

void PutPair(uint8_t* b, int s, int scale, int min) {
  if (s < 4) {
    b[s] = static_cast<uint8_t>(b[s] | scale);
    b[s + 4] = static_cast<uint8_t>(b[s + 4] | min);
    return;
  }
  b[s + 4] = static_cast<uint8_t>((scale & 15) | ((min & 15) << 4));
  b[s - 4] = static_cast<uint8_t>(b[s - 4] | ((scale >> 4) << 6));
  b[s] = static_cast<uint8_t>(b[s] | ((min >> 4) << 6));
}

// Q4_K (q_max = 15) and Q5_K (q_max = 31). Minima first, rounded up to their grid; then scales that
// span from the rounded minimum to the maximum, rounded up too.
void QuantiseK45(const float* x, int q_max, uint8_t* block) {
  const bool five = q_max == 31;
  std::memset(block, 0, static_cast<size_t>(five ? 176 : 144));
  float below[8];
  float above[8];
  for (int s = 0; s < 8; ++s) {
    const auto [low, high] = std::minmax_element(x + s * 32, x + s * 32 + 32);
    below[s] = std::max(0.0f, -*low);
    above[s] = std::max(0.0f, *high);
  }
  const F16 dmin = HalfAtLeast(*std::max_element(below, below + 8) / 63.0f);
  int mins[8];
  float spans[8];
  for (int s = 0; s < 8; ++s) {
    mins[s] = CeilDiv(below[s], ToFloat(dmin), 63);
    spans[s] = (above[s] + ToFloat(dmin) * static_cast<float>(mins[s])) / static_cast<float>(q_max);
  }
  const F16 d = HalfAtLeast(*std::max_element(spans, spans + 8) / 63.0f);
  PutHalf(block, d);
  PutHalf(block + 2, dmin);
  uint8_t* qh = block + 16;
  uint8_t* qs = block + (five ? 48 : 16);
  for (int s = 0; s < 8; ++s) {
    const int scale = CeilDiv(spans[s], ToFloat(d), 63);
    PutPair(block + 4, s, scale, mins[s]);
    const float step = ToFloat(d) * static_cast<float>(scale);
    const float offset = ToFloat(dmin) * static_cast<float>(mins[s]);
    for (int l = 0; l < 32; ++l) {
      const float steps = step == 0.0f ? 0.0f : (x[s * 32 + l] + offset) / step;
      const int q = std::clamp(static_cast<int>(std::lround(steps)), 0, q_max);
      uint8_t& byte = qs[(s / 2) * 32 + l];
      byte = static_cast<uint8_t>(byte | ((q & 15) << (s % 2 == 0 ? 0 : 4)));
      if (five) qh[l] = static_cast<uint8_t>(qh[l] | ((q >> 4) << s));
    }
  }
}

void QuantiseQ6K(const float* x, uint8_t* block) {
  std::memset(block, 0, 210);
  float spans[16];
  for (int s = 0; s < 16; ++s) {
    spans[s] = 0.0f;
    for (int i = 0; i < 16; ++i) spans[s] = std::max(spans[s], std::fabs(x[s * 16 + i]) / 31.0f);
  }
  const F16 d = HalfAtLeast(*std::max_element(spans, spans + 16) / 127.0f);
  PutHalf(block + 208, d);
  for (int s = 0; s < 16; ++s) {
    const int scale = CeilDiv(spans[s], ToFloat(d), 127);
    block[192 + s] = static_cast<uint8_t>(scale);
    const float step = ToFloat(d) * static_cast<float>(scale);
    for (int i = 0; i < 16; ++i) {
      const int e = s * 16 + i;
      const float steps = step == 0.0f ? 0.0f : x[e] / step;
      const int q = std::clamp(static_cast<int>(std::lround(steps)), -32, 31) + 32;
      // Element l + 32 k of a half: ql byte l + 32 (k & 1), upper nibble if k >= 2; qh byte l.
      const int half = e / 128, l = e % 32, k = (e % 128) / 32;
      uint8_t& low = block[half * 64 + l + 32 * (k & 1)];
      uint8_t& high = block[128 + half * 32 + l];
      low = static_cast<uint8_t>(low | ((q & 15) << (k >= 2 ? 4 : 0)));
      high = static_cast<uint8_t>(high | ((q >> 4) << (2 * k)));
    }
  }
}

void QuantiseBlock(DType dtype, const float* x, uint8_t* block) {
  switch (dtype) {
    case DType::kF32: std::memcpy(block, x, sizeof(float)); return;
    case DType::kF16: return PutHalf(block, ToF16(*x));
    case DType::kBF16: {
      const Bf16 value = ToBf16(*x);
      std::memcpy(block, &value.bits, sizeof(value.bits));
      return;
    }
    case DType::kQ4_0: return QuantiseSymmetric(x, 8, block);
    case DType::kQ5_0: return QuantiseSymmetric(x, 16, block);
    case DType::kQ4_1: return QuantiseWithMin(x, 15, block);
    case DType::kQ5_1: return QuantiseWithMin(x, 31, block);
    case DType::kQ8_0: return QuantiseQ8(x, block);
    case DType::kQ4_K: return QuantiseK45(x, 15, block);
    case DType::kQ5_K: return QuantiseK45(x, 31, block);
    case DType::kQ6_K: return QuantiseQ6K(x, block);
    default: WEFT_CHECK(false, "no quantiser for {}", NameOf(dtype));
  }
}

}  // namespace

void QuantiseRow(DType dtype, const float* x, int64_t elements, void* blocks) {
  const DTypeFacts& facts = FactsOf(dtype);
  WEFT_CHECK(elements % facts.block_elements == 0, "{} elements are no whole {} blocks", elements,
             facts.name);
  auto* bytes = static_cast<uint8_t*>(blocks);
  for (int64_t at = 0; at < elements; at += facts.block_elements, bytes += facts.block_bytes) {
    QuantiseBlock(dtype, x + at, bytes);
  }
}

}  // namespace weft
