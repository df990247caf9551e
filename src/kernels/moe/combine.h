// What the experts of a token have computed, weighted and added: fp32 roots of the expert leaves
// that are here.
//
// For each token t and column h: every leaf is summed by itself from +0 over its routed experts,
// ascending by id, acc = fma(weight, f32(row of the route), acc); a leaf without a routed expert is
// +0, and is added like the others; then `merges` says how the subtotals are added
// (tensor/leaf_table.h). What remains are the roots, to be finished as those of a matmul are:
// partials[r][t][h]. Source: docs/numerics.md 4 and 10.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

inline constexpr int64_t kCombineColumns = 256;  // of a unit

struct CombineArgs {
  View rows;           // [n, H] float32 or bfloat16: down projections in the order of group_routes
  int64_t tokens = 0;  // T, live rows
  int top_k = 1;       // <= kTopKMax
  const int32_t* ids = nullptr;  // [T, top_k] ascending within a row
  const int32_t* place =
      nullptr;  // [T, top_k] row of each route; not looked at where a leaf is elsewhere
  // [T, top_k] the row of each route where rows are not in one place; nullptr: by `place`.
  const std::byte* const* row_of = nullptr;
  const float* weights = nullptr;       // [T, top_k]
  const int32_t* leaf_begin = nullptr;  // [leaves + 1] expert ids of the leaves that are here
  int leaves = 0;
  const uint8_t* merges = nullptr;  // [leaves]
  int roots = 1;
  float* partials = nullptr;    // [roots][T][H], H contiguous
  int64_t partials_stride = 0;  // floats from one root to the next
};
std::span<const Kernel<CombineArgs>* const> CombineKernels();  // unit = kCombineColumns of a token

}  // namespace weft::kernels
