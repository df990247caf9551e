// The contract of combining routed rows: each own token's rows, found by counting, weighed and
// added up by the tree of the experts' leaves, rounded once.
#include <cmath>

#include "base/bf16.h"
#include "comm/reference.h"
#include "tensor/leaf_table.h"

namespace weft::comm {
namespace {

// The row of a route among those of who has its expert: by expert, then token.
int64_t PlaceOf(const CombineRowsArgs& a, const HeldExperts& held, int64_t route) {
  int64_t place = 0;
  for (int64_t other = 0; other < a.tokens * a.combine.top_k; ++other) {
    const int32_t expert = a.ids[other];
    if (expert < held.first || expert > a.ids[route]) continue;
    place += expert < a.ids[route] || other < route;
  }
  return place;
}

float ElementAt(const CombineRowsArgs& a, int64_t route, int64_t column) {
  for (int h = 0; h < a.held_count; ++h) {
    const HeldExperts& held = a.held[h];
    if (a.ids[route] < held.first || a.ids[route] >= held.first + held.count) continue;
    const std::byte* row = held.rows.data + PlaceOf(a, held, route) * held.rows.stride;
    return a.combine.rows.dtype == DType::kF32
               ? reinterpret_cast<const float*>(row)[column]
               : ToFloat(reinterpret_cast<const Bf16*>(row)[column]);
  }
  return NAN;
}

float Combined(const CombineRowsArgs& a, int64_t token, int64_t row, int64_t column) {
  const kernels::CombineArgs& c = a.combine;
  float stack[kLeavesMax];
  int top = 0;
  for (int leaf = 0; leaf < c.leaves; ++leaf) {
    float sum = 0;
    for (int i = 0; i < c.top_k; ++i) {
      const int64_t route = token * c.top_k + i;
      if (a.ids[route] < c.leaf_begin[leaf] || a.ids[route] >= c.leaf_begin[leaf + 1]) continue;
      sum = std::fma(c.weights[row * c.top_k + i], ElementAt(a, route, column), sum);
    }
    stack[top++] = sum;
    for (int m = 0; m < c.merges[leaf]; ++m, --top) stack[top - 2] += stack[top - 1];
  }
  return stack[0];
}

}  // namespace

void CombineRowsRef(std::span<const CombineRowsArgs> members) {
  for (const CombineRowsArgs& a : members) {
    int64_t row = 0;
    for (int i = 0; i < a.own_count; ++i) {
      for (int64_t token = a.own[i].begin; token < a.own[i].end; ++token, ++row) {
        for (int64_t column = 0; column < a.y.cols; ++column) {
          const float y = Combined(a, token, row, column);
          if (a.y.dtype == DType::kF32) {
            a.y.row<float>(row)[column] = y;
          } else {
            a.y.row<Bf16>(row)[column] = ToBf16(y);
          }
        }
      }
    }
  }
}

}  // namespace weft::comm
