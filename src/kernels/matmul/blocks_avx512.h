// Codes and scales of block formats out of a panel, AVX-512. Layout: panel_layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/for_format.h"
#include "kernels/matmul/panel_layout.h"
#include "kernels/simd/avx512.h"

namespace weft::kernels {

// What an unsigned code is above its integer; Q8_0's are made unsigned by w ^ 0x80 = w + 128.
static constexpr int ZeroOf(DType type) {
  return type == DType::kQ8_0 ? 128 : BlockLayoutOf(type).zero;
}

// Quad `kQuad` of a step: byte 4o + b is the unsigned code of input 4*kQuad + b of output o.
template <DType kType, int kQuad>
static WEFT_INLINE v512::Words Codes(const std::byte* step) {
  constexpr BlockLayout kLayout = BlockLayoutOf(kType);
  if constexpr (kLayout.bits == 8) {
    return v512::Xor(v512::LoadWords(step + kQuad * 64), v512::SetBytes(0x80));
  } else {
    const v512::Words bytes = v512::LoadWords(step + kLayout.high_bytes + kQuad % 4 * 64);
    const v512::Words low =
        v512::And(kQuad < 4 ? bytes : v512::ShiftRight(bytes, 4), v512::SetBytes(15));
    if constexpr (kLayout.bits == 4) {
      return low;
    } else {
      constexpr int kAt = kLayout.bits == 5 ? kQuad : 2 * (kQuad % 4);
      constexpr int kOffset = kLayout.bits == 5 ? 0 : kQuad / 4 * 64;
      const v512::Words high = v512::LoadWords(step + kOffset);
      const v512::Words shifted =
          kAt <= 4 ? v512::ShiftLeft(high, (4 - kAt) & 31) : v512::ShiftRight(high, (kAt - 4) & 31);
      return v512::Or(low, v512::And(shifted, v512::SetBytes(kLayout.bits == 5 ? 0x10 : 0x30)));
    }
  }
}

// The same as signed integers, the zero taken off.
template <DType kType, int kQuad>
static WEFT_INLINE v512::Words SignedCodes(const std::byte* step) {
  constexpr BlockLayout kLayout = BlockLayoutOf(kType);
  if constexpr (kLayout.bits == 8) return v512::LoadWords(step + kQuad * 64);
  const v512::Words codes = Codes<kType, kQuad>(step);
  if constexpr (kLayout.zero == 0) return codes;
  return v512::SubtractBytes(codes, v512::SetBytes(kLayout.zero));
}

// Scales of one step.
struct StepScales {
  v512::Floats scale[2];  // inputs 0..15 and 16..31; equal but for Q6_K
  v512::Floats min;
};

template <DType kType>
static WEFT_INLINE StepScales ScalesOf(const std::byte* header, int sub) {
  StepScales out;
  const v512::Floats d = v512::LoadHalves(header);
  out.scale[0] = out.scale[1] = d;
  out.min = v512::ZeroFloats();
  if constexpr (kType == DType::kQ4_1 || kType == DType::kQ5_1) {
    out.min = v512::LoadHalves(header + 32);
  } else if constexpr (kType == DType::kQ4_K || kType == DType::kQ5_K) {
    const v512::Words low = v512::LoadUnsignedBytes(header + 64 + sub * 16);
    const v512::Words both = v512::LoadUnsignedBytes(header + 192 + sub / 2 * 16);
    const v512::Words high = sub % 2 == 0 ? both : v512::ShiftRight(both, 4);
    const v512::Words three = v512::SetWords(3);
    const v512::Words sc =
        v512::Or(v512::And(low, v512::SetWords(15)), v512::ShiftLeft(v512::And(high, three), 4));
    const v512::Words m = v512::Or(v512::ShiftRight(low, 4),
                                   v512::ShiftLeft(v512::And(v512::ShiftRight(high, 2), three), 4));
    out.scale[0] = out.scale[1] = v512::Multiply(d, v512::ToFloats(sc));
    const v512::Floats product = v512::Multiply(v512::LoadHalves(header + 32), v512::ToFloats(m));
    out.min = v512::BitsToFloats(v512::Xor(v512::FloatBits(product), v512::SetWords(INT32_MIN)));
  } else if constexpr (kType == DType::kQ6_K) {
    for (int i = 0; i < 2; ++i) {
      const v512::Words sc = v512::LoadSignedBytes(header + 32 + (sub * 2 + i) * 16);
      out.scale[i] = v512::Multiply(d, v512::ToFloats(sc));
    }
  }
  return out;
}

}  // namespace weft::kernels
