// finish, AVX2: eight columns at a time; the last ones as the contract does them.
#include <immintrin.h>

#include "kernels/reduce/finish.h"
#include "kernels/simd/storage.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

std::string RefuseFinish(const FinishArgs& a);

namespace {

template <typename V>
WEFT_INLINE V Finished(const FinishArgs& a, int64_t row, int64_t col) {
  V stack[kLeavesMax];
  int top = 0;
  for (int i = 0; i < a.count; ++i) {
    stack[top++] = V::Load(a.roots[i] + row * a.strides[i] + col);
    for (int m = 0; m < a.merges[i]; ++m) {
      stack[top - 2] = stack[top - 2] + stack[top - 1];
      --top;
    }
  }
  return a.bias != nullptr ? stack[0] + V::Load(a.bias + col) : stack[0];
}

template <typename T>
WEFT_INLINE void FinishRow(const FinishArgs& a, int64_t row) {
  T* y = static_cast<T*>(a.y.data) + row * a.y.stride;
  int64_t col = 0;
  for (; col + 8 <= a.y.cols; col += 8) Store8(y + col, Finished<F8>(a, row, col));
  for (; col < a.y.cols; ++col) StoreElement(y + col, Finished<F1>(a, row, col).v);
}

void Run(const FinishArgs& a, Slice slice, std::byte*) {
  for (int64_t row = slice.begin; row < slice.end; ++row) {
    if (a.y.dtype == DType::kF32) {
      FinishRow<float>(a, row);
    } else {
      FinishRow<Bf16>(a, row);
    }
  }
}

int64_t Units(const FinishArgs& a) { return a.y.rows; }

}  // namespace

extern const Kernel<FinishArgs> kFinishAvx2;
const Kernel<FinishArgs> kFinishAvx2{.name = "avx2",
                                     .isa = Isa::kAvx2,
                                     .refuse = RefuseFinish,
                                     .units = Units,
                                     .run = Run};

}  // namespace weft::kernels
