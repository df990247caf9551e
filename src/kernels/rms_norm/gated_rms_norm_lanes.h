// gated_rms_norm for the instruction sets: one text for every width of register.
#pragma once

#include <string>

#include "kernels/rms_norm/gated_rms_norm.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/math.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

extern const Kernel<GatedRmsNormArgs> kGatedRmsNormRef;

namespace {

template <typename L>
struct GatedRmsNormLanes {
  using V = typename L::V;

  template <GateActivation kActivation, typename T>
  static void Head(const GatedRmsNormArgs& a, const T* o, const T* z, T* y) {
    float leaves[kLeavesMax];
    for (int i = 0; i < a.leaves; ++i) {
      leaves[i] = SumOfSquares<L>(o + a.leaf_begin[i], a.leaf_begin[i + 1] - a.leaf_begin[i]);
    }
    const float mean = TreeSum(leaves, 0, a.leaves) / static_cast<float>(a.width);
    const V scale = V::Set(1.0f / __builtin_sqrtf(mean + a.eps));
    for (int64_t h = 0; h < a.width; h += L::kLanes) {
      const int64_t left = a.width - h;
      const V gate = L::LoadFirst(z + h, left);
      const V act = kActivation == GateActivation::kSilu ? Silu(gate) : Sigmoid(gate);
      L::StoreFirst(y + h, left,
                    ((L::LoadFirst(o + h, left) * scale) * L::LoadFirst(a.w + h, left)) * act);
    }
  }

  template <GateActivation kActivation, typename T>
  static void Rows(const GatedRmsNormArgs& a, Slice slice) {
    for (int64_t t = slice.begin; t < slice.end; ++t) {
      for (int64_t at = 0; at < a.heads * a.width; at += a.width) {
        Head<kActivation>(a, a.o.row<const T>(t) + at, a.z.row<const T>(t) + at,
                          a.y.row<T>(t) + at);
      }
    }
  }

  template <GateActivation kActivation>
  static void RowsOf(const GatedRmsNormArgs& a, Slice slice) {
    a.y.dtype == DType::kBF16 ? Rows<kActivation, Bf16>(a, slice)
                              : Rows<kActivation, float>(a, slice);
  }

  static std::string Refuse(const GatedRmsNormArgs& a) { return kGatedRmsNormRef.refuse(a); }

  static int64_t Units(const GatedRmsNormArgs& a) { return a.y.rows; }

  static void Run(const GatedRmsNormArgs& a, Slice slice, std::byte*) {
    a.activation == GateActivation::kSilu ? RowsOf<GateActivation::kSilu>(a, slice)
                                          : RowsOf<GateActivation::kSigmoid>(a, slice);
  }
};

}  // namespace
}  // namespace weft::kernels
