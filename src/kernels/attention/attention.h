// Causal attention of row segments over the paged KV cache, and the writer of that cache.
//
// Keys come in tiles of 64 and spans of 1,024 at absolute positions. Inside a span: online softmax,
// tiles in order, from a fresh (m, l, O); spans merge left to right in fp32. The tail tile is
// computed whole and masked; P is rounded to the model dtype and l sums the rounded P. A row's
// operations depend on its position and on the cache's content alone, never on the segment, the
// chunk, the page size or its neighbours. The exact order of every sum is in attention_ref.cc.
// Source: docs/numerics.md 9; Dao et al. 2022 (online softmax).
#pragma once

#include "kernels/attention/kv_layout.h"
#include "kernels/kernel.h"
#include "tensor/rows.h"
#include "tensor/view.h"

namespace weft::kernels {

inline constexpr int kKvTile = 64;
inline constexpr int kKvSpan = 1024;

using weft::Segment;

struct AttentionArgs {
  View q;  // [T, heads * head_dim] model dtype
  View y;  // [T, heads * head_dim] model dtype
  KvLayout kv;
  int heads = 0;                        // query heads on this rank
  const int32_t* kv_of_head = nullptr;  // [heads] -> local kv head
  float scale = 0;                      // scores are (q . k) * scale
  const Segment* segments = nullptr;
  int segment_count = 0;
  int64_t rows = 0;  // sum of the segments' rows
};
std::span<const Kernel<AttentionArgs>* const> AttentionKernels();

struct KvWriteArgs {
  View k;  // [T, heads * head_dim] model dtype; all kv heads or a run of them
  View v;  // [T, heads * head_dim]
  KvLayout kv;
  int first_head = 0;              // of the layout: where k's and v's first head goes
  const int64_t* slots = nullptr;  // [T]: page * page_tokens + offset; < 0: not written
};
std::span<const Kernel<KvWriteArgs>* const> KvWriteKernels();

}  // namespace weft::kernels
