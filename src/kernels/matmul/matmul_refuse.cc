#include "kernels/matmul/matmul_refuse.h"

#include <fmt/format.h>

#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

bool IsPlainWeight(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

bool IsRowType(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

}  // namespace

std::string RefuseMatmul(const MatmulArgs& a) {
  if (!IsPlainWeight(a.w.dtype) && !IsQuantised(a.w.dtype)) {
    return fmt::format("no weights in {}", NameOf(a.w.dtype));
  }
  if (a.w.k_leaves > kLeavesMax) {
    return fmt::format("{} K-leaves, at most {}", a.w.k_leaves, kLeavesMax);
  }
  if (a.int8_activations) {
    if (!IsQuantised(a.w.dtype)) {
      return fmt::format("int8 activations with {} weights", NameOf(a.w.dtype));
    }
  } else if (!IsRowType(a.x.dtype)) {
    return fmt::format("no rows in {}", NameOf(a.x.dtype));
  }
  if (IsQuantised(a.w.dtype) && a.w.k % FactsOf(a.w.dtype).block_elements != 0) {
    return fmt::format("K {} is no multiple of {}'s block {}", a.w.k, NameOf(a.w.dtype),
                       FactsOf(a.w.dtype).block_elements);
  }
  if (a.finish && a.roots != 1) return fmt::format("cannot finish {} roots, only 1", a.roots);
  if (a.finish && !IsRowType(a.y.dtype)) return fmt::format("no output in {}", NameOf(a.y.dtype));
  return "";
}

std::string RefuseUnlessPlain(const MatmulArgs& a) {
  if (IsQuantised(a.w.dtype)) return fmt::format("{} is a block format", NameOf(a.w.dtype));
  return RefuseMatmul(a);
}

std::string RefuseUnlessBf16(const MatmulArgs& a) {
  if (a.w.dtype != DType::kBF16) return fmt::format("weights in {}", NameOf(a.w.dtype));
  if (a.x.dtype != DType::kBF16) return fmt::format("rows in {}", NameOf(a.x.dtype));
  return RefuseMatmul(a);
}

std::string RefuseUnlessInt8(const MatmulArgs& a) {
  if (!a.int8_activations) return "activations are not int8";
  return RefuseMatmul(a);
}

std::string RefuseUnlessBlocksByBf16(const MatmulArgs& a) {
  if (!IsQuantised(a.w.dtype)) return fmt::format("{} is no block format", NameOf(a.w.dtype));
  if (a.int8_activations) return "activations are int8";
  return RefuseMatmul(a);
}

}  // namespace weft::kernels
