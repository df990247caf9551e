// An attention that breaks rule 9 of docs/numerics.md: its tiles of 64 keys begin at the segment's
// first position instead of at absolute ones, so that a chunk's place changes the order of sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "kernels/attention/attention.h"

namespace weft::one_answer {

inline void RunBrokenAttention(const kernels::AttentionArgs& a, kernels::Slice slice, std::byte*) {
  const int dim = a.kv.head_dim;
  for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
    int64_t index = unit / a.heads;
    const int head = static_cast<int>(unit % a.heads), kv_head = a.kv_of_head[head];
    const Segment* s = a.segments;
    while (index >= s->rows) index -= s++->rows;
    const int64_t position = s->position_begin + index;
    const Bf16* q = a.q.row<const Bf16>(s->row_begin + index) + head * dim;
    const auto page_of = [&](int64_t p) { return s->pages[p / a.kv.page_tokens]; };
    float m = -INFINITY, l = 0;
    std::vector<float> o(dim, 0.0f);
    int64_t end = s->position_begin % kernels::kKvTile;  // the first tile is the short one
    for (int64_t begin = 0; begin <= position; begin = end, end += kernels::kKvTile) {
      if (end == 0) end = kernels::kKvTile;
      const int64_t stop = std::min(end, position + 1);
      std::vector<float> scores;
      float n = m;
      for (int64_t p = begin; p < stop; ++p) {
        const auto* k = reinterpret_cast<const Bf16*>(a.kv.keys(page_of(p), kv_head));
        float score = 0;
        for (int d = 0; d < dim; ++d) {
          score += ToFloat(q[d]) * ToFloat(k[a.kv.key_index(p % a.kv.page_tokens, d)]);
        }
        scores.push_back(score * a.scale);
        n = std::max(n, scores.back());
      }
      const float alpha = std::exp(m - n);
      l *= alpha;
      for (float& x : o) x *= alpha;
      for (int64_t p = begin; p < stop; ++p) {
        const float weight = ToFloat(ToBf16(std::exp(scores[p - begin] - n)));
        const auto* v = reinterpret_cast<const Bf16*>(a.kv.values(page_of(p), kv_head));
        l += weight;
        for (int d = 0; d < dim; ++d) {
          o[d] += weight * ToFloat(v[a.kv.value_index(p % a.kv.page_tokens, d)]);
        }
      }
      m = n;
    }
    Bf16* y = a.y.row<Bf16>(s->row_begin + index) + head * dim;
    for (int d = 0; d < dim; ++d) y[d] = ToBf16(o[d] / l);
  }
}

inline constexpr kernels::Kernel<kernels::AttentionArgs> kBrokenAttention{
    .name = "broken",
    .isa = kernels::Isa::kPortable,
    .refuse = nullptr,
    .units = [](const kernels::AttentionArgs& a) { return a.rows * a.heads; },
    .scratch_bytes = nullptr,
    .run = RunBrokenAttention};

}  // namespace weft::one_answer
