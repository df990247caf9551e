// The floating-point environment of every kernel (docs/numerics.md 2): round to nearest even,
// denormal results flushed to zero (FTZ), denormal operands read as zero (DAZ).
//
// With it no fp32 result of arithmetic is ever denormal, so the conversions to bf16, which work on
// bits and keep what they are given, see none either. vcvtph2ps ignores DAZ, as the scalar ToFloat
// does: a half's denormal is a normal float.
// Thread: sets its own thread's state only.
#pragma once

#include <immintrin.h>

namespace weft::kernels {

inline constexpr unsigned kMxcsrRoundingBits = 0x6000;
inline constexpr unsigned kMxcsrFtzDaz = 0x8040;

// For a thread that computes all its life.
inline void SetFloatEnvironment() {
  _mm_setcsr((_mm_getcsr() & ~kMxcsrRoundingBits) | kMxcsrFtzDaz);
}

inline bool FloatEnvironmentIsSet() {
  return (_mm_getcsr() & (kMxcsrRoundingBits | kMxcsrFtzDaz)) == kMxcsrFtzDaz;
}

// For a thread that also does other things.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals() : saved_(_mm_getcsr()) { SetFloatEnvironment(); }
  ~ScopedFlushDenormals() { _mm_setcsr(saved_); }
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace weft::kernels
