// The contract of gated_rms_norm; the order is in gated_rms_norm.h.
#include <string>

#include "kernels/rms_norm/gated_rms_norm.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/tree.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

template <typename T>
void NormHead(const GatedRmsNormArgs& a, const T* o, const T* z, T* y) {
  float leaves[kLeavesMax];
  for (int i = 0; i < a.leaves; ++i) {
    float lanes[16] = {};
    for (int64_t h = a.leaf_begin[i]; h < a.leaf_begin[i + 1]; ++h) {
      float& lane = lanes[(h - a.leaf_begin[i]) % 16];
      lane = __builtin_fmaf(LoadElement(o + h), LoadElement(o + h), lane);
    }
    leaves[i] = TreeSum16(lanes);
  }
  const float mean = TreeSum(leaves, 0, a.leaves) / static_cast<float>(a.width);
  const float scale = 1.0f / __builtin_sqrtf(mean + a.eps);
  for (int64_t h = 0; h < a.width; ++h) {
    const F1 gate{LoadElement(z + h)};
    const float act = (a.activation == GateActivation::kSilu ? Silu(gate) : Sigmoid(gate)).v;
    StoreElement(y + h, ((LoadElement(o + h) * scale) * a.w[h]) * act);
  }
}

template <typename T>
void NormRow(const GatedRmsNormArgs& a, int64_t t) {
  for (int64_t at = 0; at < a.heads * a.width; at += a.width) {
    NormHead(a, a.o.row<const T>(t) + at, a.z.row<const T>(t) + at, a.y.row<T>(t) + at);
  }
}

std::string Refuse(const GatedRmsNormArgs& a) {
  if (a.y.dtype != DType::kBF16 && a.y.dtype != DType::kF32) {
    return "y is " + std::string(NameOf(a.y.dtype)) + ", not bfloat16 or float32";
  }
  if (a.o.dtype != a.y.dtype || a.z.dtype != a.y.dtype) return "o or z is not of y's dtype";
  if (a.leaves < 1 || a.leaves > kLeavesMax) return std::to_string(a.leaves) + " leaves, not 1..16";
  return "";
}

int64_t Units(const GatedRmsNormArgs& a) { return a.y.rows; }

void Run(const GatedRmsNormArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.y.dtype == DType::kBF16 ? NormRow<Bf16>(a, t) : NormRow<float>(a, t);
  }
}

}  // namespace

extern const Kernel<GatedRmsNormArgs> kGatedRmsNormRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
