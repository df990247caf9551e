// A kernel's loops written once for every width of register: Lanes8 is AVX2, Lanes16 (simd/
// lanes_avx512.h) AVX-512. Elements are in the model dtype or float32 (simd/storage.h).
//
// The first n lanes alone: those behind them are +0 when loaded and their memory is not touched;
// n may be 0 or less, and beyond the width it means all.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/simd/storage.h"
#include "kernels/simd/tree.h"

namespace weft::kernels {

struct Lanes8 {
  using V = F8;
  static constexpr int kLanes = 8;

  template <typename T>
  static WEFT_INLINE V Load(const T* p) {
    return Load8(p);
  }
  template <typename T>
  static WEFT_INLINE void Store(T* p, V x) {
    Store8(p, x);
  }
  template <typename T>
  static WEFT_INLINE V LoadFirst(const T* p, int64_t n) {
    if (n >= kLanes) return Load8(p);
    T rest[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) rest[i] = p[i];
    return Load8(rest);
  }
  template <typename T>
  static WEFT_INLINE void StoreFirst(T* p, int64_t n, V x) {
    if (n >= kLanes) return Store8(p, x);
    T rest[kLanes];
    Store8(rest, x);
    for (int64_t i = 0; i < n; ++i) p[i] = rest[i];
  }
  // Tree(0, 16) over lanes 0-7 in a, 8-15 in b.
  struct Sum16 {
    V low = V::Zero();
    V high = V::Zero();
    template <typename T>
    WEFT_INLINE void AddSquares(const T* x, int64_t n) {
      const V a = LoadFirst(x, n);
      const V b = LoadFirst(x + 8, n - 8);
      low = V::Fma(a, a, low);
      high = V::Fma(b, b, high);
    }
    WEFT_INLINE float Tree() const { return TreeSum16(low, high); }
  };
};

// The sum of x^2 as every row statistic takes it (docs/numerics.md 5): lane j of 16 adds elements
// j, j + 16, ...; then Tree(0, 16). Lanes that a rest does not reach add x*x with x = +0, which
// changes no sum of squares (they are never -0).
template <typename L, typename T>
static WEFT_INLINE float SumOfSquares(const T* x, int64_t count) {
  typename L::Sum16 sum;
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) sum.AddSquares(x + i, 16);
  if (i < count) sum.AddSquares(x + i, count - i);
  return sum.Tree();
}

}  // namespace weft::kernels
