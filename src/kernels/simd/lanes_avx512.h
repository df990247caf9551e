// simd/lanes.h with 512-bit registers and masks. Unnamed, as a program may hold both forms of
// simd/avx512.h.
#pragma once

#include "kernels/simd/avx512.h"
#include "kernels/simd/lanes.h"

namespace weft::kernels {
namespace {

struct Lanes16 {
  using V = v512::F16x;
  static constexpr int kLanes = 16;

  template <typename T>
  static WEFT_INLINE V Load(const T* p) {
    return Load16(p);
  }
  template <typename T>
  static WEFT_INLINE void Store(T* p, V x) {
    Store16(p, x);
  }
  template <typename T>
  static WEFT_INLINE V LoadFirst(const T* p, int64_t n) {
    return Load16(FirstLanes(n), p);
  }
  template <typename T>
  static WEFT_INLINE void StoreFirst(T* p, int64_t n, V x) {
    Store16(FirstLanes(n), p, x);
  }
  struct Sum16 {
    V lanes = V::Zero();
    template <typename T>
    WEFT_INLINE void AddSquares(const T* x, int64_t n) {
      const V a = n >= kLanes ? Load(x) : LoadFirst(x, n);
      lanes = V::Fma(a, a, lanes);
    }
    WEFT_INLINE float Tree() const {
      return TreeSum16(v512::LowHalf(lanes.v), v512::HighHalf(lanes.v));
    }
  };
};

}  // namespace
}  // namespace weft::kernels
