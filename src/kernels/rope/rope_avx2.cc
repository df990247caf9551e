// rope with AVX2, 8 pairs at a time; the rest of a head by the scalar form of the same operations.
#include <string>

#include "kernels/rope/rope.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {

extern const Kernel<RopeArgs> kRopeRef;

namespace {

template <typename T>
void RotateRow(const RopeArgs& a, int64_t t) {
  const int half = a.rot / 2;
  const float* cos = a.cos + int64_t{a.positions[t]} * half;
  const float* sin = a.sin + int64_t{a.positions[t]} * half;
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (int head = 0; head < a.heads; ++head) {
    T* x = a.x.row<T>(t) + head * a.head_dim;
    int i = 0;
    for (; i + 8 <= half; i += 8) {
      const F8 x1 = Load8(x + i);
      const F8 x2 = Load8(x + i + half);
      const F8 c = F8::Load(cos + i);
      const F8 s = F8::Load(sin + i);
      const F8 minus = {_mm256_xor_ps((x2 * s).v, sign)};
      Store8(x + i, F8::Fma(x1, c, minus));
      Store8(x + i + half, F8::Fma(x2, c, x1 * s));
    }
    for (; i < half; ++i) {
      const float x1 = LoadElement(x + i);
      const float x2 = LoadElement(x + i + half);
      StoreElement(x + i, __builtin_fmaf(x1, cos[i], -(x2 * sin[i])));
      StoreElement(x + i + half, __builtin_fmaf(x2, cos[i], x1 * sin[i]));
    }
  }
}

std::string Refuse(const RopeArgs& a) { return kRopeRef.refuse(a); }

int64_t Units(const RopeArgs& a) { return a.x.rows; }

void Run(const RopeArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.x.dtype == DType::kBF16 ? RotateRow<Bf16>(a, t) : RotateRow<float>(a, t);
  }
}

}  // namespace

extern const Kernel<RopeArgs> kRopeAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
