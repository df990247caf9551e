// rms_norm with AVX-512: the 16 lanes of a leaf are one register. A leaf is one chain of additions;
// that of the next leaf overlaps with it.
#include <string>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/simd/lanes_avx512.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

extern const Kernel<RmsNormArgs> kRmsNormRef;

namespace {

using V = v512::F16x;

template <typename T>
void AddResidual(const T* x, T* residual, int64_t width) {
  int64_t h = 0;
  for (; h + 16 <= width; h += 16) Store16(residual + h, Load16(residual + h) + Load16(x + h));
  if (h < width) {
    const v512::Mask rest = FirstLanes(width - h);
    Store16(rest, residual + h, Load16(rest, residual + h) + Load16(rest, x + h));
  }
}

template <typename T>
void NormGroup(const RmsNormArgs& a, const T* x, T* residual, T* y) {
  if (residual != nullptr) {
    AddResidual(x, residual, a.width);
    x = residual;
  }
  float leaves[kLeavesMax];
  for (int i = 0; i < a.leaves; ++i) {
    leaves[i] = SumOfSquares<Lanes16>(x + a.leaf_begin[i], a.leaf_begin[i + 1] - a.leaf_begin[i]);
  }
  const float mean = TreeSum(leaves, 0, a.leaves) / static_cast<float>(a.width);
  const float scale = 1.0f / __builtin_sqrtf(mean + a.eps);
  const V scales = V::Set(scale);
  int64_t h = 0;
  for (; h + 16 <= a.width; h += 16) {
    Store16(y + h, (Load16(x + h) * scales) * Load16(a.gain + h));
  }
  if (h < a.width) {
    const v512::Mask rest = FirstLanes(a.width - h);
    Store16(rest, y + h, (Load16(rest, x + h) * scales) * Load16(rest, a.gain + h));
  }
}

template <typename T>
void NormRow(const RmsNormArgs& a, int64_t t) {
  for (int g = 0; g < a.groups; ++g) {
    T* residual = a.residual.data != nullptr ? a.residual.row<T>(t) + g * a.width : nullptr;
    NormGroup<T>(a, a.x.row<const T>(t) + g * a.width, residual, a.y.row<T>(t) + g * a.width);
  }
}

std::string Refuse(const RmsNormArgs& a) { return kRmsNormRef.refuse(a); }

int64_t Units(const RmsNormArgs& a) { return a.x.rows; }

void Run(const RmsNormArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.x.dtype == DType::kBF16 ? NormRow<Bf16>(a, t) : NormRow<float>(a, t);
  }
}

}  // namespace

extern const Kernel<RmsNormArgs> kRmsNormAvx512;
const Kernel<RmsNormArgs> kRmsNormAvx512{
    .name = "avx512bf16", .isa = Isa::kAvx512Bf16, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
