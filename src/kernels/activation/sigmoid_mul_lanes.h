// sigmoid_mul for the instruction sets: one text for every width of register.
#pragma once

#include <string>

#include "kernels/activation/sigmoid_mul.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/math.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {

extern const Kernel<SigmoidMulArgs> kSigmoidMulRef;

namespace {

template <typename L>
struct SigmoidMulLanes {
  using V = typename L::V;

  // factor(f, left): what columns from f on are multiplied by, of which `left` are there.
  template <typename T, typename F>
  WEFT_INLINE static void Multiply(const SigmoidMulArgs& a, int64_t t, const F& factor) {
    const T* x = a.x.row<const T>(t);
    T* y = a.y.row<T>(t);
    for (int64_t f = 0; f < a.y.cols; f += L::kLanes) {
      const int64_t left = a.y.cols - f;
      L::StoreFirst(y + f, left, L::LoadFirst(x + f, left) * factor(f, left));
    }
  }

  template <typename T>
  static void Row(const SigmoidMulArgs& a, int64_t t) {
    if (a.one_gate_a_row()) {
      const V all = V::Set(Sigmoid(F1{*a.gate.row<const float>(t)}).v);
      Multiply<T>(a, t, [&](int64_t, int64_t) WEFT_INLINED { return all; });
    } else {
      const T* gate = a.gate.row<const T>(t);
      Multiply<T>(a, t, [&](int64_t f, int64_t left) WEFT_INLINED {
        return Sigmoid(L::LoadFirst(gate + f, left));
      });
    }
  }

  static std::string Refuse(const SigmoidMulArgs& a) { return kSigmoidMulRef.refuse(a); }

  static int64_t Units(const SigmoidMulArgs& a) { return a.y.rows; }

  static void Run(const SigmoidMulArgs& a, Slice slice, std::byte*) {
    for (int64_t t = slice.begin; t < slice.end; ++t) {
      a.y.dtype == DType::kBF16 ? Row<Bf16>(a, t) : Row<float>(a, t);
    }
  }
};

}  // namespace
}  // namespace weft::kernels
