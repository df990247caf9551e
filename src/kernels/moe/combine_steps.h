// The walk over a token's leaves, looked up once per token and then done for all its columns.
//
// Most leaves hold no routed expert (8 routes, 16 leaves), so subtotals that are +0 by definition
// are kept as a word and not as registers: +0 + +0 is +0, and x + (+0) is an addition without a
// load. It is not left out: it makes +0 of the -0 to which a product can be flushed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/moe/combine.h"
#include "kernels/moe/route.h"
#include "kernels/simd/unroll.h"
#include "kernels/simd/vec.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

struct CombineSteps {
  enum Kind : uint8_t { kLeaf, kAdd, kAddZero };
  struct Step {
    Kind kind;
    uint8_t begin;  // kLeaf: its sources
    uint8_t end;
  };
  struct Source {
    const std::byte* row;
    float weight;
  };
  Source sources[kTopKMax];
  Step steps[3 * kLeavesMax];
  int count;
  bool is_zero[kLeavesMax];  // of the roots; the others are on the stack of subtotals, in order
};

static WEFT_INLINE void FindSteps(const CombineArgs& a, int64_t t, CombineSteps& s) {
  const int32_t* ids = a.ids + t * a.top_k;
  const int64_t row_bytes = a.rows.stride * (a.rows.dtype == DType::kBF16 ? 2 : 4);
  int i = 0;
  while (i < a.top_k && ids[i] < a.leaf_begin[0]) ++i;
  s.count = 0;
  int top = 0;
  for (int l = 0; l < a.leaves; ++l) {
    const int begin = i;
    for (; i < a.top_k && ids[i] < a.leaf_begin[l + 1]; ++i) {
      const int64_t route = t * a.top_k + i;
      s.sources[i] = {a.row_of != nullptr
                          ? a.row_of[route]
                          : static_cast<const std::byte*>(a.rows.data) + a.place[route] * row_bytes,
                      a.weights[route]};
    }
    if (i > begin) {
      s.steps[s.count++] = {CombineSteps::kLeaf, static_cast<uint8_t>(begin),
                            static_cast<uint8_t>(i)};
    }
    s.is_zero[top++] = i == begin;
    for (int m = 0; m < a.merges[l]; ++m, --top) {
      const bool left = s.is_zero[top - 2];
      const bool right = s.is_zero[top - 1];
      s.is_zero[top - 2] = left && right;
      if (left && right) continue;
      const bool again = left != right && s.steps[s.count - 1].kind == CombineSteps::kAddZero;
      if (!again)
        s.steps[s.count++] = {left || right ? CombineSteps::kAddZero : CombineSteps::kAdd, 0, 0};
    }
  }
}

// kVectors columns of V side by side. load(p): V from elements T; store(root, at, v).
template <typename V, typename T, int kVectors, typename Load, typename Store>
static WEFT_INLINE void CombineColumns(const CombineSteps& s, int roots, int64_t col,
                                       const Load& load, const Store& store) {
  V stack[kLeavesMax][kVectors];
  int top = 0;
  for (int i = 0; i < s.count; ++i) {
    const CombineSteps::Step step = s.steps[i];
    if (step.kind == CombineSteps::kLeaf) {
      V acc[kVectors];
      Unroll<kVectors>([&](auto v) WEFT_INLINED { acc[v.value] = V::Zero(); });
      for (int j = step.begin; j < step.end; ++j) {
        const T* row = reinterpret_cast<const T*>(s.sources[j].row) + col;
        const V weight = V::Set(s.sources[j].weight);
        Unroll<kVectors>([&](auto v) WEFT_INLINED {
          acc[v.value] = V::Fma(weight, load(row + v.value * V::kLanes), acc[v.value]);
        });
      }
      Unroll<kVectors>([&](auto v) WEFT_INLINED { stack[top][v.value] = acc[v.value]; });
      ++top;
    } else if (step.kind == CombineSteps::kAdd) {
      Unroll<kVectors>([&](auto v) WEFT_INLINED {
        stack[top - 2][v.value] = stack[top - 2][v.value] + stack[top - 1][v.value];
      });
      --top;
    } else {
      Unroll<kVectors>([&](auto v) WEFT_INLINED {
        stack[top - 1][v.value] = stack[top - 1][v.value] + V::Zero();
      });
    }
  }
  int next = 0;
  for (int r = 0; r < roots; ++r) {
    const int from = next;
    if (!s.is_zero[r]) ++next;
    Unroll<kVectors>([&](auto v) WEFT_INLINED {
      store(r, col + v.value * V::kLanes, s.is_zero[r] ? V::Zero() : stack[from][v.value]);
    });
  }
}

// columns(steps, token, begin, end) for each unit of the slice.
template <typename Columns>
static WEFT_INLINE void ForEachCombineUnit(const CombineArgs& a, Slice slice,
                                           const Columns& columns) {
  const int64_t blocks = (a.rows.cols + kCombineColumns - 1) / kCombineColumns;
  CombineSteps steps;
  int64_t found = -1;
  for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const int64_t t = unit / blocks;
    if (t != found) FindSteps(a, t, steps);
    found = t;
    const int64_t begin = unit % blocks * kCombineColumns;
    const int64_t end = begin + kCombineColumns;
    columns(steps, t, begin, end < a.rows.cols ? end : a.rows.cols);
  }
}

}  // namespace weft::kernels
