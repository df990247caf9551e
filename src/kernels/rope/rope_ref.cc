// The contract of rope; the formula is in rope.h. x2*sin and x1*sin are rounded to fp32 first.
#include <string>

#include "kernels/rope/rope.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {
namespace {

template <typename T>
void RotateRow(const RopeArgs& a, int64_t t) {
  const int half = a.rot / 2;
  const float* cos = a.cos + int64_t{a.positions[t]} * half;
  const float* sin = a.sin + int64_t{a.positions[t]} * half;
  for (int head = 0; head < a.heads; ++head) {
    T* x = a.x.row<T>(t) + head * a.head_dim;
    for (int i = 0; i < half; ++i) {
      const float x1 = LoadElement(x + i);
      const float x2 = LoadElement(x + i + half);
      StoreElement(x + i, __builtin_fmaf(x1, cos[i], -(x2 * sin[i])));
      StoreElement(x + i + half, __builtin_fmaf(x2, cos[i], x1 * sin[i]));
    }
  }
}

std::string Refuse(const RopeArgs& a) {
  if (a.x.dtype != DType::kBF16 && a.x.dtype != DType::kF32) {
    return "x is " + std::string(NameOf(a.x.dtype)) + ", not bfloat16 or float32";
  }
  if (a.rot % 2 != 0 || a.rot > a.head_dim) {
    return "rot " + std::to_string(a.rot) + " is odd or beyond head_dim " +
           std::to_string(a.head_dim);
  }
  return "";
}

int64_t Units(const RopeArgs& a) { return a.x.rows; }

void Run(const RopeArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    if (a.x.dtype == DType::kBF16) {
      RotateRow<Bf16>(a, t);
    } else {
      RotateRow<float>(a, t);
    }
  }
}

}  // namespace

extern const Kernel<RopeArgs> kRopeRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
