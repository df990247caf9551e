// Our own elementary functions: the same operations in scalar and vector code, so the same bits
// (docs/numerics.md 2). No libm anywhere in kernels. All assume round to nearest even; with FTZ and
// DAZ no argument or result is denormal.
//
//   Exp(x)    fp32, at most 1 ulp (0.93 seen over 3 million arguments in simd/math_test.cc).
//             exp(-inf) = +0 exactly, and +0 wherever the result would be below 2^-126;
//             exp(+inf) = +inf; NaN gives the one NaN 0x7fc00000.
//   Log(x)    fp32 of a positive normal float, computed in double and rounded once: at most 0.51 ulp.
//   Log1p(x)  fp32 of x >= 0, likewise; NaN gives NaN.
//   SinCosDouble, PowDouble: for the rope tables; absolute error below 2^-50 for |x| < 2^30.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/simd/vec.h"

namespace weft::kernels {

// x = n ln2 + r, |r| <= ln2/2; n ln2_hi is subtracted exactly (31 bits in one fma), the polynomial
// is of degree 6 with a relative error of 1.1e-8 (interpolated at Chebyshev nodes, then rounded),
// and 2^n is added to the exponent field: within the limits below that can neither wrap nor make a
// denormal, n = 128 only meets p < 1 and n = -126 only p >= 1.
template <typename V>
static WEFT_INLINE V Exp(V x) {
  constexpr float kLow = -0x1.5d589ep+6f;  // the least x with exp(x) >= 2^-126
  constexpr float kHigh = 0x1.62e42ep+6f;  // the greatest x with a finite exp(x)
  constexpr float kMagic = 0x1.8p+23f;     // adding it rounds to an integer, kept in the low bits
  const V t = V::Fma(x, V::Set(0x1.715476p+0f), V::Set(kMagic));
  const V n = t - V::Set(kMagic);
  V r = V::Fma(n, V::Set(-0x1.62e430p-1f), x);
  r = V::Fma(n, V::Set(0x1.05c610p-29f), r);
  V p = V::Fma(V::Set(0x1.6d1106p-10f), r, V::Set(0x1.120b6cp-7f));
  p = V::Fma(p, r, V::Set(0x1.55551ap-5f));
  p = V::Fma(p, r, V::Set(0x1.5554dcp-3f));
  p = V::Fma(p, r, V::Set(0.5f));
  p = V::Fma(p, r, V::Set(1.0f));
  p = V::Fma(p, r, V::Set(1.0f));
  V y = V::AddExponent(p, t);
  y = V::IfLess(x, V::Set(kLow), V::Zero(), y);
  y = V::IfLess(V::Set(kHigh), x, V::Set(__builtin_inff()), y);
  return V::IfNaN(x, V::Set(__builtin_nanf("")), y);
}

static WEFT_INLINE float Exp(float x) { return Exp(F1{x}).v; }

// x / (1 + exp(-x)). -inf gives NaN (-inf/inf), not the limit -0: such an input is an error
// already.
template <typename V>
static WEFT_INLINE V Silu(V x) {
  return x / (V::Set(1.0f) + Exp(V::Zero() - x));
}

// 1 / (1 + exp(-x)). Its ends are exactly +0 and 1.
template <typename V>
static WEFT_INLINE V Sigmoid(V x) {
  return V::Set(1.0f) / (V::Set(1.0f) + Exp(V::Zero() - x));
}

// log of a positive normal double: x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s),
// s = (m - 1)/(m + 1), |s| < 0.1716, odd series up to s^21 (the rest is below 2^-62).
static WEFT_INLINE double LogDouble(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  // Shifts the mantissa's range so that it starts at sqrt(1/2) and not at 1.
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;
  const int64_t e = static_cast<int64_t>(shifted) >> 52;
  bits -= static_cast<uint64_t>(e) << 52;
  double m;
  std::memcpy(&m, &bits, 8);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;
  p = __builtin_fma(p, z, 1.0 / 19.0);
  p = __builtin_fma(p, z, 1.0 / 17.0);
  p = __builtin_fma(p, z, 1.0 / 15.0);
  p = __builtin_fma(p, z, 1.0 / 13.0);
  p = __builtin_fma(p, z, 1.0 / 11.0);
  p = __builtin_fma(p, z, 1.0 / 9.0);
  p = __builtin_fma(p, z, 1.0 / 7.0);
  p = __builtin_fma(p, z, 1.0 / 5.0);
  p = __builtin_fma(p, z, 1.0 / 3.0);
  const double tail = s * z * p;
  const double n = static_cast<double>(e);
  const double low = __builtin_fma(n, 0x1.abc9e3b39803fp-56, 2.0 * tail);
  return __builtin_fma(n, 0x1.62e42fefa39efp-1, 2.0 * s + low);
}

static WEFT_INLINE float Log(float x) { return static_cast<float>(LogDouble(x)); }

// What the sum 1 + x loses of x comes back to first order: x itself where x < 2^-53, and NaN.
static WEFT_INLINE float Log1p(float x) {
  const double sum = 1.0 + double{x};
  return static_cast<float>(LogDouble(sum) + (double{x} - (sum - 1.0)) / sum);
}

// log(1 + exp(x)); above 20 the float nearest to it is x or its neighbour.
static WEFT_INLINE float Softplus(float x) { return x > 20.0f ? x : Log1p(Exp(x)); }

// exp of a double in [-700, 700]: Taylor to degree 13 on |r| <= ln2/2 (the rest is below 2^-57).
static WEFT_INLINE double ExpDouble(double x) {
  constexpr double kMagic = 0x1.8p+52;
  const double t = __builtin_fma(x, 0x1.71547652b82fep+0, kMagic);
  const double n = t - kMagic;
  double r = __builtin_fma(n, -0x1.62e42fefa39efp-1, x);
  r = __builtin_fma(n, -0x1.abc9e3b39803fp-56, r);
  double p = 1.0 / 6227020800.0;
  p = __builtin_fma(p, r, 1.0 / 479001600.0);
  p = __builtin_fma(p, r, 1.0 / 39916800.0);
  p = __builtin_fma(p, r, 1.0 / 3628800.0);
  p = __builtin_fma(p, r, 1.0 / 362880.0);
  p = __builtin_fma(p, r, 1.0 / 40320.0);
  p = __builtin_fma(p, r, 1.0 / 5040.0);
  p = __builtin_fma(p, r, 1.0 / 720.0);
  p = __builtin_fma(p, r, 1.0 / 120.0);
  p = __builtin_fma(p, r, 1.0 / 24.0);
  p = __builtin_fma(p, r, 1.0 / 6.0);
  p = __builtin_fma(p, r, 0.5);
  p = __builtin_fma(p, r, 1.0);
  p = __builtin_fma(p, r, 1.0);
  uint64_t a, b;
  std::memcpy(&a, &p, 8);
  std::memcpy(&b, &t, 8);
  a += b << 52;
  std::memcpy(&p, &a, 8);
  return p;
}

// x^y for x > 0.
static WEFT_INLINE double PowDouble(double x, double y) { return ExpDouble(y * LogDouble(x)); }

struct SinCos {
  double sin;
  double cos;
};

// |x| < 2^30. Reduced by pi/2 in three parts (exact products by fma), Taylor on |r| <= pi/4:
// sin to r^19, cos to r^20 (the rest is below 2^-70).
static WEFT_INLINE SinCos SinCosDouble(double x) {
  constexpr double kMagic = 0x1.8p+52;
  const double t = __builtin_fma(x, 0x1.45f306dc9c883p-1, kMagic);
  const double n = t - kMagic;
  double r = __builtin_fma(n, -0x1.921fb54442d18p+0, x);
  r = __builtin_fma(n, -0x1.1a62633145c07p-54, r);
  r = __builtin_fma(n, 0x1.f1976b7ed8fbcp-110, r);
  const double z = r * r;
  double s = -1.0 / 121645100408832000.0;
  s = __builtin_fma(s, z, 1.0 / 355687428096000.0);
  s = __builtin_fma(s, z, -1.0 / 1307674368000.0);
  s = __builtin_fma(s, z, 1.0 / 6227020800.0);
  s = __builtin_fma(s, z, -1.0 / 39916800.0);
  s = __builtin_fma(s, z, 1.0 / 362880.0);
  s = __builtin_fma(s, z, -1.0 / 5040.0);
  s = __builtin_fma(s, z, 1.0 / 120.0);
  s = __builtin_fma(s, z, -1.0 / 6.0);
  const double sine = __builtin_fma(s * z, r, r);
  double c = 1.0 / 2432902008176640000.0;
  c = __builtin_fma(c, z, -1.0 / 6402373705728000.0);
  c = __builtin_fma(c, z, 1.0 / 20922789888000.0);
  c = __builtin_fma(c, z, -1.0 / 87178291200.0);
  c = __builtin_fma(c, z, 1.0 / 479001600.0);
  c = __builtin_fma(c, z, -1.0 / 3628800.0);
  c = __builtin_fma(c, z, 1.0 / 40320.0);
  c = __builtin_fma(c, z, -1.0 / 720.0);
  c = __builtin_fma(c, z, 1.0 / 24.0);
  const double cosine = __builtin_fma(c * z, z, __builtin_fma(-0.5, z, 1.0));
  uint64_t quadrant;
  std::memcpy(&quadrant, &t, 8);
  switch (quadrant & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

}  // namespace weft::kernels
