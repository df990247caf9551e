#include "tensor/quant_format.h"

#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

namespace weft {
namespace {

constexpr int kBlockMax = 256;
constexpr int kSubBlocksMax = 16;

// One block taken apart. Sub-block s holds elements [s * scale_elements, (s + 1) * scale_elements).
struct Parts {
  int8_t q[kBlockMax];
  float scales[kSubBlocksMax];
  float mins[kSubBlocksMax];
};

float HalfAt(const uint8_t* p) {
  F16 half;
  std::memcpy(&half.bits, p, sizeof(half.bits));
  return ToFloat(half);
}

// 16 bytes hold 32 elements: byte j has element j below and element j + 16 above. `high` gives the
// fifth bits (0 for four-bit formats), `zero` is taken off.
void DecodeNibbles(const uint8_t* qs, uint32_t high, int zero, int8_t* q) {
  for (int j = 0; j < 16; ++j) {
    const int low_bit = static_cast<int>((high >> j) & 1u) << 4;
    const int high_bit = static_cast<int>((high >> (j + 16)) & 1u) << 4;
    q[j] = static_cast<int8_t>(((qs[j] & 15) | low_bit) - zero);
    q[j + 16] = static_cast<int8_t>(((qs[j] >> 4) | high_bit) - zero);
  }
}

uint32_t Word32At(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

struct SixBitPair {
  int scale;
  int min;
};

// Pair s of the 12 bytes in which Q4_K and Q5_K keep 8 scales and 8 minima of six bits.
SixBitPair PairAt(const uint8_t* b, int s) {
  if (s < 4) return {b[s] & 63, b[s + 4] & 63};
  return {(b[s + 4] & 15) | ((b[s - 4] >> 6) << 4), (b[s + 4] >> 4) | ((b[s] >> 6) << 4)};
}

// Q4_K and Q5_K; `qh` is null for the former.
void DecodeK45(const uint8_t* block, const uint8_t* qh, const uint8_t* qs, Parts& out) {
  const float d = HalfAt(block);
  const float dmin = HalfAt(block + 2);
  for (int s = 0; s < 8; ++s) {
    const SixBitPair pair = PairAt(block + 4, s);
    out.scales[s] = d * static_cast<float>(pair.scale);
    out.mins[s] = -(dmin * static_cast<float>(pair.min));
    const uint8_t* bytes = qs + (s / 2) * 32;
    for (int l = 0; l < 32; ++l) {
      int q = s % 2 == 0 ? bytes[l] & 15 : bytes[l] >> 4;
      if (qh != nullptr) q |= ((qh[l] >> s) & 1) << 4;
      out.q[s * 32 + l] = static_cast<int8_t>(q);
    }
  }
}

void DecodeQ6K(const uint8_t* block, Parts& out) {
  const uint8_t* ql = block;
  const uint8_t* qh = block + 128;
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  const float d = HalfAt(block + 208);
  for (int s = 0; s < 16; ++s) out.scales[s] = d * static_cast<float>(scales[s]);
  for (int half = 0; half < 2; ++half, ql += 64, qh += 32) {
    int8_t* q = out.q + half * 128;
    for (int l = 0; l < 32; ++l) {
      q[l] = static_cast<int8_t>(((ql[l] & 15) | ((qh[l] & 3) << 4)) - 32);
      q[l + 32] = static_cast<int8_t>(((ql[l + 32] & 15) | (((qh[l] >> 2) & 3) << 4)) - 32);
      q[l + 64] = static_cast<int8_t>(((ql[l] >> 4) | (((qh[l] >> 4) & 3) << 4)) - 32);
      q[l + 96] = static_cast<int8_t>(((ql[l + 32] >> 4) | (((qh[l] >> 6) & 3) << 4)) - 32);
    }
  }
}

void DecodeBlock(DType dtype, const uint8_t* block, Parts& out) {
  std::memset(out.mins, 0, sizeof(out.mins));
  switch (dtype) {
    case DType::kQ4_0: out.scales[0] = HalfAt(block); return DecodeNibbles(block + 2, 0, 8, out.q);
    case DType::kQ4_1:
      out.scales[0] = HalfAt(block);
      out.mins[0] = HalfAt(block + 2);
      return DecodeNibbles(block + 4, 0, 0, out.q);
    case DType::kQ5_0:
      out.scales[0] = HalfAt(block);
      return DecodeNibbles(block + 6, Word32At(block + 2), 16, out.q);
    case DType::kQ5_1:
      out.scales[0] = HalfAt(block);
      out.mins[0] = HalfAt(block + 2);
      return DecodeNibbles(block + 8, Word32At(block + 4), 0, out.q);
    case DType::kQ8_0:
      out.scales[0] = HalfAt(block);
      std::memcpy(out.q, block + 2, 32);
      return;
    case DType::kQ4_K: return DecodeK45(block, nullptr, block + 16, out);
    case DType::kQ5_K: return DecodeK45(block, block + 16, block + 48, out);
    case DType::kQ6_K: return DecodeQ6K(block, out);
    default: WEFT_CHECK(false, "{} is no block format", NameOf(dtype));
  }
}

}  // namespace

void DequantiseRow(DType dtype, const void* blocks, int64_t elements, float* out) {
  const auto* bytes = static_cast<const uint8_t*>(blocks);
  switch (dtype) {
    case DType::kF32:
      if (elements > 0) std::memcpy(out, bytes, static_cast<size_t>(elements) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = HalfAt(bytes + 2 * i);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < elements; ++i) {
        Bf16 value;
        std::memcpy(&value.bits, bytes + 2 * i, sizeof(value.bits));
        out[i] = ToFloat(value);
      }
      return;
    default: break;
  }
  const DTypeFacts& facts = FactsOf(dtype);
  WEFT_CHECK(elements % facts.block_elements == 0, "{} elements are no whole {} blocks", elements,
             facts.name);
  Parts parts;
  for (int64_t at = 0; at < elements; at += facts.block_elements, bytes += facts.block_bytes) {
    DecodeBlock(dtype, bytes, parts);
    for (int s = 0; s < facts.block_elements / facts.scale_elements; ++s) {
      const int8_t* q = parts.q + s * facts.scale_elements;
      float* y = out + at + s * facts.scale_elements;
      for (int i = 0; i < facts.scale_elements; ++i) {
        y[i] = std::fma(static_cast<float>(q[i]), parts.scales[s], parts.mins[s]);
      }
    }
  }
}

void DecodeBlocks(DType dtype, const void* blocks, int64_t elements, int8_t* q, float* scales,
                  float* mins) {
  const DTypeFacts& facts = FactsOf(dtype);
  WEFT_CHECK(IsQuantised(dtype), "{} is no block format", facts.name);
  WEFT_CHECK(elements % facts.block_elements == 0, "{} elements are no whole {} blocks", elements,
             facts.name);
  WEFT_CHECK(mins != nullptr || !facts.has_min, "{} has minima and needs a place for them",
             facts.name);
  const size_t sub_blocks = static_cast<size_t>(facts.block_elements / facts.scale_elements);
  const auto* bytes = static_cast<const uint8_t*>(blocks);
  Parts parts;
  for (int64_t at = 0; at < elements; at += facts.block_elements, bytes += facts.block_bytes) {
    DecodeBlock(dtype, bytes, parts);
    std::memcpy(q + at, parts.q, static_cast<size_t>(facts.block_elements));
    const int64_t first = at / facts.scale_elements;
    std::memcpy(scales + first, parts.scales, sub_blocks * sizeof(float));
    if (mins != nullptr) std::memcpy(mins + first, parts.mins, sub_blocks * sizeof(float));
  }
}

}  // namespace weft
