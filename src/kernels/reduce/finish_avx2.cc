// finish, AVX2: columns in blocks of 64, then of 8; the last ones as the contract does them.
#include <immintrin.h>

#include "kernels/reduce/finish.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/unroll.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

std::string RefuseFinish(const FinishArgs& a);

namespace {

// kVectors columns of V side by side: the walk over roots and merges is as long as the sums of one.
template <typename V, int kVectors, typename T>
WEFT_INLINE void FinishColumns(const FinishArgs& a, int64_t row, int64_t col, T* y) {
  V stack[kLeavesMax][kVectors];
  int top = 0;
  for (int i = 0; i < a.count; ++i) {
    const float* root = a.roots[i] + row * a.strides[i] + col;
    Unroll<kVectors>(
        [&](auto v) WEFT_INLINED { stack[top][v.value] = V::Load(root + v.value * V::kLanes); });
    ++top;
    for (int m = 0; m < a.merges[i]; ++m, --top) {
      Unroll<kVectors>([&](auto v) WEFT_INLINED {
        stack[top - 2][v.value] = stack[top - 2][v.value] + stack[top - 1][v.value];
      });
    }
  }
  Unroll<kVectors>([&](auto v) WEFT_INLINED {
    const int64_t at = col + v.value * V::kLanes;
    V out = stack[0][v.value];
    if (a.bias != nullptr) out = out + V::Load(a.bias + at);
    if constexpr (V::kLanes == 1) {
      StoreElement(y + at, out.v);
    } else {
      Store8(y + at, out);
    }
  });
}

// Two ranks, a root each: what nearly every exchange of a decode step is.
template <typename T>
WEFT_INLINE void FinishPair(const FinishArgs& a, int64_t row, int64_t cols, T* y) {
  const float* left = a.roots[0] + row * a.strides[0];
  const float* right = a.roots[1] + row * a.strides[1];
  for (int64_t col = 0; col < cols; col += 8) {
    F8 out = F8::Load(left + col) + F8::Load(right + col);
    if (a.bias != nullptr) out = out + F8::Load(a.bias + col);
    Store8(y + col, out);
  }
}

template <typename T>
void FinishRow(const FinishArgs& a, int64_t row) {
  constexpr int kVectors = 8;
  T* y = static_cast<T*>(a.y.data) + row * a.y.stride;
  int64_t col = 0;
  if (a.count == 2) {
    col = a.y.cols / 8 * 8;
    FinishPair(a, row, col, y);
  }
  for (; col + kVectors * 8 <= a.y.cols; col += kVectors * 8) {
    FinishColumns<F8, kVectors>(a, row, col, y);
  }
  for (; col + 8 <= a.y.cols; col += 8) FinishColumns<F8, 1>(a, row, col, y);
  for (; col < a.y.cols; ++col) FinishColumns<F1, 1>(a, row, col, y);
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
const Kernel<FinishArgs> kFinishAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = RefuseFinish, .units = Units, .run = Run};

}  // namespace weft::kernels
