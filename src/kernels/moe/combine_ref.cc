// The contract of combine.
#include <fmt/format.h>

#include <string>

#include "base/check.h"
#include "kernels/moe/combine.h"
#include "kernels/moe/route.h"
#include "kernels/simd/storage.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

template <typename T>
const T* RowOf(const CombineArgs& a, int64_t route) {
  return a.row_of != nullptr ? reinterpret_cast<const T*>(a.row_of[route])
                             : a.rows.row<const T>(a.place[route]);
}
float RowAt(const CombineArgs& a, int64_t route, int64_t h) {
  if (a.rows.dtype == DType::kF32) return RowOf<float>(a, route)[h];
  return ToFloat(RowOf<Bf16>(a, route)[h]);
}

void CombineColumn(const CombineArgs& a, int64_t t, int64_t h) {
  const int32_t* ids = a.ids + t * a.top_k;
  const float* weights = a.weights + t * a.top_k;
  float stack[kLeavesMax];
  int top = 0;
  for (int l = 0; l < a.leaves; ++l) {
    float acc = 0.0f;
    for (int i = 0; i < a.top_k; ++i) {
      if (ids[i] < a.leaf_begin[l] || ids[i] >= a.leaf_begin[l + 1]) continue;
      acc = __builtin_fmaf(weights[i], RowAt(a, t * a.top_k + i, h), acc);
    }
    stack[top++] = acc;
    for (int m = 0; m < a.merges[l]; ++m) {
      stack[top - 2] += stack[top - 1];
      --top;
    }
  }
  WEFT_DCHECK(top == a.roots, "{} roots left, {} expected", top, a.roots);
  for (int r = 0; r < a.roots; ++r)
    a.partials[r * a.partials_stride + t * a.rows.cols + h] = stack[r];
}

std::string Refuse(const CombineArgs& a) {
  if (a.rows.dtype != DType::kF32 && a.rows.dtype != DType::kBF16) {
    return fmt::format("no rows in {}", NameOf(a.rows.dtype));
  }
  if (a.top_k < 1 || a.top_k > kTopKMax)
    return fmt::format("top {}, not 1 to {}", a.top_k, kTopKMax);
  if (a.leaves < 0 || a.leaves > kLeavesMax) {
    return fmt::format("{} leaves of experts, at most {}", a.leaves, kLeavesMax);
  }
  return "";
}

int64_t Blocks(const CombineArgs& a) {
  return (a.rows.cols + kCombineColumns - 1) / kCombineColumns;
}

// Without leaves there are no roots.
int64_t Units(const CombineArgs& a) { return a.leaves == 0 ? 0 : a.tokens * Blocks(a); }

void Run(const CombineArgs& a, Slice slice, std::byte*) {
  for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const int64_t begin = unit % Blocks(a) * kCombineColumns;
    for (int64_t h = begin; h < begin + kCombineColumns && h < a.rows.cols; ++h) {
      CombineColumn(a, unit / Blocks(a), h);
    }
  }
}

}  // namespace

extern const Kernel<CombineArgs> kCombineRef;
const Kernel<CombineArgs> kCombineRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
