// Denormals read and written as zero (FTZ, DAZ): part of the bit contract (docs/numerics.md 2), for
// every thread that computes. The rest of MXCSR keeps its value: round to nearest even, exceptions
// masked.
#pragma once

#include <xmmintrin.h>

namespace weft::device {

inline constexpr unsigned kFlushBits = 0x8040;  // FTZ | DAZ

inline void SetFlushDenormals() { _mm_setcsr(_mm_getcsr() | kFlushBits); }

// For a scope on a thread that is not ours. Writes MXCSR only if it differs, since that drains the
// pipeline.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals() : before_(_mm_getcsr()) {
    if ((before_ & kFlushBits) != kFlushBits) _mm_setcsr(before_ | kFlushBits);
  }
  ~ScopedFlushDenormals() {
    if ((before_ & kFlushBits) != kFlushBits) _mm_setcsr(before_);
  }
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  const unsigned before_;
};

}  // namespace weft::device
