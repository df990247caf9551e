// Storage floats. A value is rounded to nearest even when it is stored and nowhere else.
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(Bf16, Bf16) = default;
};

struct F16 {
  uint16_t bits = 0;
  friend bool operator==(F16, F16) = default;
};

inline float ToFloat(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// Round to nearest even; NaN stays NaN (quiet); denormal results are kept, as stored bits.
inline Bf16 ToBf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return Bf16{static_cast<uint16_t>((u >> 16) | 0x40u)};
  return Bf16{static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

inline float ToFloat(F16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // A half's denormal is a normal float: shift the leading one into place.
  const int shift = std::countl_zero(mantissa) - 21;
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(113 - shift) << 23) | (mantissa << 13));
}

inline F16 ToF16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return F16{static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x47800000u) return F16{static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x33000000u) return F16{sign};
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
  uint32_t half =
      exponent < -14
          ? mantissa >> shift
          : ((static_cast<uint32_t>(exponent + 15) << 10) | ((mantissa & 0x7fffffu) >> 13));
  const uint32_t rest = mantissa & ((1u << shift) - 1u);
  const uint32_t middle = 1u << (shift - 1);
  if (rest > middle || (rest == middle && (half & 1u))) ++half;
  return F16{static_cast<uint16_t>(sign | half)};
}

}  // namespace weft
