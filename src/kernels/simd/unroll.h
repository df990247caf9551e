// A loop over constants. GCC turns an array of registers into registers only if every index is a
// constant before it looks; loops, even with `#pragma GCC unroll`, are unrolled after that, and the
// accumulators of a tile are then stored in every round (measured: half the rate).
#pragma once

#include <utility>

#include "kernels/simd/vec.h"

// After a lambda's parameters.
#define WEFT_INLINED __attribute__((always_inline))

namespace weft::kernels {

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

template <typename F, int... kIndex>
static WEFT_INLINE void UnrollOver(std::integer_sequence<int, kIndex...>, const F& f) {
  (f(Constant<kIndex>{}), ...);
}

// f(Constant<0>{}), ..., f(Constant<kCount - 1>{})
template <int kCount, typename F>
static WEFT_INLINE void Unroll(const F& f) {
  UnrollOver(std::make_integer_sequence<int, kCount>{}, f);
}

}  // namespace weft::kernels
