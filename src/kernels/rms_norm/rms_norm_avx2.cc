// rms_norm with AVX2: the 16 lanes of a leaf are two registers.
#include <string>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/simd/lanes.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

extern const Kernel<RmsNormArgs> kRmsNormRef;

namespace {

template <typename T>
void AddResidual(const T* x, T* residual, int64_t width) {
  int64_t h = 0;
  for (; h + 8 <= width; h += 8) Store8(residual + h, Load8(residual + h) + Load8(x + h));
  for (; h < width; ++h) {
    StoreElement(residual + h, LoadElement(residual + h) + LoadElement(x + h));
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
    leaves[i] = SumOfSquares<Lanes8>(x + a.leaf_begin[i], a.leaf_begin[i + 1] - a.leaf_begin[i]);
  }
  const float mean = TreeSum(leaves, 0, a.leaves) / static_cast<float>(a.width);
  const float scale = 1.0f / __builtin_sqrtf(mean + a.eps);
  const F8 scales = F8::Set(scale);
  int64_t h = 0;
  for (; h + 8 <= a.width; h += 8) {
    Store8(y + h, (Load8(x + h) * scales) * F8::Load(a.gain + h));
  }
  for (; h < a.width; ++h) StoreElement(y + h, (LoadElement(x + h) * scale) * a.gain[h]);
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

extern const Kernel<RmsNormArgs> kRmsNormAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
