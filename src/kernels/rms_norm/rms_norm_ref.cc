// The contract of rms_norm; the order is in rms_norm.h. Lanes that a short leaf does not reach stay
// +0, and Tree(0, 16) always adds all sixteen. With a residual, r' = round(r + x) is stored first
// and its rounded value is what is squared and scaled. y = round((r' * scale) * gain).
#include <string>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/tree.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

template <typename T>
float LeafSquares(const T* x, int64_t begin, int64_t end) {
  float lanes[16] = {};
  for (int64_t i = begin; i < end; ++i) {
    float& lane = lanes[(i - begin) % 16];
    lane = __builtin_fmaf(LoadElement(x + i), LoadElement(x + i), lane);
  }
  return TreeSum16(lanes);
}

template <typename T>
void NormGroup(const RmsNormArgs& a, const T* x, T* residual, T* y) {
  if (residual != nullptr) {
    for (int64_t h = 0; h < a.width; ++h) {
      StoreElement(residual + h, LoadElement(residual + h) + LoadElement(x + h));
    }
    x = residual;
  }
  float leaves[kLeavesMax];
  for (int i = 0; i < a.leaves; ++i) {
    leaves[i] = LeafSquares(x, a.leaf_begin[i], a.leaf_begin[i + 1]);
  }
  const float mean = TreeSum(leaves, 0, a.leaves) / static_cast<float>(a.width);
  const float scale = 1.0f / __builtin_sqrtf(mean + a.eps);
  for (int64_t h = 0; h < a.width; ++h) {
    StoreElement(y + h, (LoadElement(x + h) * scale) * a.gain[h]);
  }
}

template <typename T>
void NormRow(const RmsNormArgs& a, int64_t t) {
  for (int g = 0; g < a.groups; ++g) {
    T* residual = a.residual.data != nullptr ? a.residual.row<T>(t) + g * a.width : nullptr;
    NormGroup<T>(a, a.x.row<const T>(t) + g * a.width, residual, a.y.row<T>(t) + g * a.width);
  }
}

std::string Refuse(const RmsNormArgs& a) {
  if (a.x.dtype != DType::kBF16 && a.x.dtype != DType::kF32) {
    return "x is " + std::string(NameOf(a.x.dtype)) + ", not bfloat16 or float32";
  }
  if (a.y.dtype != a.x.dtype) return "y is not of x's dtype";
  if (a.leaves < 1 || a.leaves > kLeavesMax) return std::to_string(a.leaves) + " leaves, not 1..16";
  return "";
}

int64_t Units(const RmsNormArgs& a) { return a.x.rows; }

void Run(const RmsNormArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    if (a.x.dtype == DType::kBF16) {
      NormRow<Bf16>(a, t);
    } else {
      NormRow<float>(a, t);
    }
  }
}

}  // namespace

extern const Kernel<RmsNormArgs> kRmsNormRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
