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

std::string AvoidSlowBf16Dots() {
  // Measured on Sapphire Rapids: 124 GFLOP/s a core where two FMAs on widened halves reach 242; on
  // Zen 4 it is 235 against 117.
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") ? "vdpbf16ps starts every second cycle on this CPU" : "";
}

std::string RefuseFewInt8Rows(const MatmulArgs& a) {
  if (const std::string reason = RefuseUnlessInt8(a); !reason.empty()) return reason;
  constexpr int64_t kRowsMin = 16;
  return a.rows < kRowsMin ? fmt::format("{} rows, tiles pay off from {}", a.rows, kRowsMin) : "";
}

}  // namespace weft::kernels
