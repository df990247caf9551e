// Attention in blocks, for the instruction sets: how units, tiles and spans are walked. What is
// done inside a tile is a type `Micro` of the including file; it lives in an anonymous namespace
// there, so nothing instantiated here leaves that file.
//
// A unit is (up to rows_per_unit rows of one segment) x (the query heads that share a kv head): its
// rows read each K and V tile once for all of them. Inside a unit a "line" is one (row, head) pair;
// lines are independent, so how they are blocked cannot change bits.
//
// Units are numbered group-major, so that a contiguous share of them is a share of every request;
// inside a segment the row tiles alternate between its two ends, because later rows have more keys.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/tree.h"

namespace weft::kernels {

inline constexpr int kAttentionLines = 48;       // at most, per unit: the measured best on Zen 3
inline constexpr int kAttentionGroupHeads = 16;  // at most, per unit

// The unit's rows and heads.
struct AttentionUnit {
  const Segment* segment;
  int row;  // first, inside the segment
  int rows;
  int head;  // first
  int heads;
  int kv_head;
};

struct AttentionGroups {
  int count;  // runs of heads with one kv head, each at most kAttentionGroupHeads
  int rows_per_unit;
  int64_t row_tiles;  // over all segments
};

static inline int AttentionRunEnd(const AttentionArgs& a, int head) {
  int end = head + 1;
  while (end < a.heads && end - head < kAttentionGroupHeads &&
         a.kv_of_head[end] == a.kv_of_head[head]) {
    ++end;
  }
  return end;
}

static inline AttentionGroups GroupsOf(const AttentionArgs& a) {
  AttentionGroups out{.count = 0, .rows_per_unit = 1, .row_tiles = 0};
  int widest = 1;
  for (int head = 0; head < a.heads;) {
    const int end = AttentionRunEnd(a, head);
    widest = end - head > widest ? end - head : widest;
    ++out.count;
    head = end;
  }
  out.rows_per_unit = kAttentionLines / widest;
  for (int i = 0; i < a.segment_count; ++i) {
    out.row_tiles += (a.segments[i].rows + out.rows_per_unit - 1) / out.rows_per_unit;
  }
  return out;
}

static inline AttentionUnit UnitAt(const AttentionArgs& a, const AttentionGroups& groups,
                                   int64_t unit) {
  AttentionUnit out{};
  int head = 0;
  for (int64_t g = unit / groups.row_tiles; g > 0; --g) head = AttentionRunEnd(a, head);
  out.head = head;
  out.heads = AttentionRunEnd(a, head) - head;
  out.kv_head = a.kv_of_head[head];
  int64_t index = unit % groups.row_tiles;
  for (int i = 0; i < a.segment_count; ++i) {
    const Segment& s = a.segments[i];
    const int64_t tiles = (s.rows + groups.rows_per_unit - 1) / groups.rows_per_unit;
    if (index >= tiles) {
      index -= tiles;
      continue;
    }
    const int64_t tile = index % 2 == 0 ? index / 2 : tiles - 1 - index / 2;
    out.segment = &s;
    out.row = static_cast<int>(tile * groups.rows_per_unit);
    const int left = s.rows - out.row;
    out.rows = left < groups.rows_per_unit ? left : groups.rows_per_unit;
    break;
  }
  return out;
}

// One worker's memory. Strides are in floats; rows of o are padded to whole registers.
struct AttentionScratch {
  float* q;       // [D / step][lines][step] of the unit, in fp32; step: 2 for bf16 pairs, else 1
  float* p;       // [lines][64]     scores, then P
  float* o;       // [lines][stride] of the span
  float* merged;  // [lines][stride] of the spans before it
  float* l;       // [lines][16]
  float* m;       // [lines] of the span
  float* alpha;   // [lines] what the tile multiplies o by
  float* merged_m;
  float* merged_l;
  int64_t stride;

  static int64_t Stride(int head_dim) { return (head_dim + 15) / 16 * 16; }
  static int64_t Bytes(int head_dim) {
    return (Stride(head_dim) * 3 + kKvTile + 16 + 4) * kAttentionLines * 4 + 64;
  }
  static AttentionScratch In(std::byte* memory, int head_dim) {
    auto address = (reinterpret_cast<uintptr_t>(memory) + 63) / 64 * 64;
    auto* at = reinterpret_cast<float*>(address);
    AttentionScratch s;
    s.stride = Stride(head_dim);
    s.q = at;
    s.o = s.q + s.stride * kAttentionLines;
    s.merged = s.o + s.stride * kAttentionLines;
    s.p = s.merged + s.stride * kAttentionLines;
    s.l = s.p + kKvTile * kAttentionLines;
    s.m = s.l + 16 * kAttentionLines;
    s.alpha = s.m + kAttentionLines;
    s.merged_m = s.alpha + kAttentionLines;
    s.merged_l = s.merged_m + kAttentionLines;
    return s;
  }
};

// Where the 16-key blocks of a tile are, and those of the tile that comes after it.
struct TileBlocks {
  const std::byte* k[kKvTile / 16];
  const std::byte* v[kKvTile / 16];
  const std::byte* next_k[kKvTile / 16];
  const std::byte* next_v[kKvTile / 16];
};

template <typename T, typename Micro>
struct BlockedAttention {
  static constexpr int kStep = sizeof(T) == 2 ? 2 : 1;  // keys (or d) per fma group

  // The blocks of the tile at `tile`, or of none (the last ones again) beyond `last_position`.
  static void FindNext(const AttentionArgs& a, const AttentionUnit& u, int64_t tile,
                       int64_t last_position, TileBlocks& blocks) {
    if (tile > last_position) return;
    constexpr int64_t kElement = sizeof(T);
    const int64_t head_bytes = a.kv.head_elements() * kElement;
    const int64_t page_bytes = a.kv.kv_heads * 2 * head_bytes;
    const std::byte* head = a.kv.base + u.kv_head * 2 * head_bytes;
    int64_t index = tile / a.kv.page_tokens;
    int64_t offset = tile % a.kv.page_tokens;
    for (int b = 0; b < kKvTile / 16; ++b) {
      const int64_t page = index < u.segment->page_count ? u.segment->pages[index] : 0;
      blocks.next_k[b] = head + page * page_bytes + offset * a.kv.head_dim * kElement;
      blocks.next_v[b] = blocks.next_k[b] + head_bytes;
      offset += 16;
      if (offset < a.kv.page_tokens) continue;
      offset = 0;
      ++index;
    }
  }
  static void Advance(TileBlocks& blocks) {
    std::memcpy(blocks.k, blocks.next_k, sizeof(blocks.k));
    std::memcpy(blocks.v, blocks.next_v, sizeof(blocks.v));
  }

  static void AddTile(const AttentionArgs& a, const AttentionUnit& u, const AttentionScratch& s,
                      int64_t tile, const TileBlocks& blocks) {
    const int head_dim = a.kv.head_dim;
    const int64_t first_position = u.segment->position_begin + u.row;
    const int64_t last_position = first_position + u.rows - 1;
    const auto visible_of = [&](int line) {
      const int64_t keys = first_position + line / u.heads - tile + 1;
      return static_cast<int>(keys < kKvTile ? keys : kKvTile);
    };
    // Rows that stand before the tile see none of it.
    const int begin = tile > first_position ? static_cast<int>(tile - first_position) * u.heads : 0;
    const int lines = u.rows * u.heads;
    const int64_t keys = last_position - tile + 1;
    const int key_blocks = keys < kKvTile ? static_cast<int>((keys + 15) / 16) : kKvTile / 16;

    // All lines over K, then all over V: a tile of K or of V fits in L1, both do not.
    const int parts = (lines - begin + Micro::kLines - 1) / Micro::kLines;
    const auto part_begin = [&](int part) { return begin + (lines - begin) * part / parts; };
    for (int part = 0; part < parts; ++part) {
      const int from = part_begin(part);
      Micro::template Scores<T>(s.q + from * kStep, lines * kStep, part_begin(part + 1) - from,
                                blocks, key_blocks, head_dim, s.p + from * kKvTile);
    }
    for (int first = begin; first < lines; first += u.heads) {
      const int visible = visible_of(first);
      for (int line = first; line < first + u.heads; ++line) {
        Micro::template Softmax<T>(s.p + line * kKvTile, a.scale, visible, s.m + line,
                                   s.l + line * 16, s.alpha + line);
      }
    }
    for (int part = 0; part < parts; ++part) {
      const int from = part_begin(part);
      const int to = part_begin(part + 1);
      const int common = visible_of(from) / kStep;
      Micro::template Values<T>(s.p + from * kKvTile, to - from, blocks, common, head_dim,
                                s.alpha + from, s.o + from * s.stride, s.stride);
      if (visible_of(from) == kKvTile) continue;
      // The rest of the last tile differs from line to line: pairs that are wholly visible, the
      // pair that is half visible, and the addition of +0 for those beyond.
      for (int line = from; line < to; ++line) {
        Micro::template LastValues<T>(s.p + line * kKvTile, blocks, common, visible_of(line),
                                      head_dim, s.o + line * s.stride);
      }
    }
  }

  static void EndSpan(const AttentionUnit& u, const AttentionScratch& s, int head_dim,
                      int64_t span) {
    const int lines = u.rows * u.heads;
    const int64_t first_position = u.segment->position_begin + u.row;
    for (int line = 0; line < lines; ++line) {
      if (first_position + line / u.heads < span) continue;
      const float l = TreeSum16(s.l + line * 16);
      const float m = s.m[line];
      const float* o = s.o + line * s.stride;
      float* merged = s.merged + line * s.stride;
      if (span == 0) {
        s.merged_m[line] = m;
        s.merged_l[line] = l;
        for (int d = 0; d < head_dim; ++d) merged[d] = o[d];
        continue;
      }
      const float n = m > s.merged_m[line] ? m : s.merged_m[line];
      const float old_weight = Exp(s.merged_m[line] - n);
      const float span_weight = Exp(m - n);
      s.merged_l[line] = __builtin_fmaf(l, span_weight, s.merged_l[line] * old_weight);
      for (int d = 0; d < head_dim; ++d) {
        merged[d] = __builtin_fmaf(o[d], span_weight, merged[d] * old_weight);
      }
      s.merged_m[line] = n;
    }
  }

  // q[D] of one line, to every lines-th group of `kStep`.
  static void WidenQuery(const T* q, int head_dim, int lines, float* to) {
    if constexpr (sizeof(T) == 2) {
      for (int d = 0; d < head_dim; d += 2, to += 2 * lines) {
        uint32_t pair;
        std::memcpy(&pair, q + d, 4);
        const uint64_t floats = uint64_t{pair << 16} | uint64_t{pair & 0xffff0000u} << 32;
        std::memcpy(to, &floats, 8);
      }
    } else {
      for (int d = 0; d < head_dim; ++d, to += lines) *to = q[d];
    }
  }

  static void WriteOutput(const float* o, float l, int head_dim, T* y) {
    const F8 divisor = F8::Set(l);
    const F8 nan = F8::Set(__builtin_nanf(""));
    int d = 0;
    for (; d + 8 <= head_dim; d += 8) {
      const F8 out = F8::Load(o + d) / divisor;
      Store8(y + d, F8::IfNaN(out, nan, out));
    }
    for (; d < head_dim; ++d) {
      const float out = o[d] / l;
      StoreElement(y + d, out != out ? __builtin_nanf("") : out);
    }
  }

  static void RunUnit(const AttentionArgs& a, const AttentionUnit& u, const AttentionScratch& s) {
    const int head_dim = a.kv.head_dim;
    const int lines = u.rows * u.heads;
    for (int line = 0; line < lines; ++line) {
      const T* q = a.q.row<const T>(u.segment->row_begin + u.row + line / u.heads) +
                   (u.head + line % u.heads) * head_dim;
      WidenQuery(q, head_dim, lines, s.q + line * kStep);
    }
    const int64_t last = u.segment->position_begin + u.row + u.rows - 1;
    TileBlocks blocks{};
    FindNext(a, u, 0, last, blocks);
    for (int64_t span = 0; span <= last; span += kKvSpan) {
      for (int line = 0; line < lines; ++line) s.m[line] = -__builtin_inff();
      std::memset(s.l, 0, sizeof(float) * 16 * lines);
      std::memset(s.o, 0, sizeof(float) * s.stride * lines);
      for (int64_t tile = span; tile < span + kKvSpan && tile <= last; tile += kKvTile) {
        Advance(blocks);
        FindNext(a, u, tile + kKvTile, last, blocks);
        AddTile(a, u, s, tile, blocks);
      }
      EndSpan(u, s, head_dim, span);
    }
    for (int line = 0; line < lines; ++line) {
      T* y = a.y.row<T>(u.segment->row_begin + u.row + line / u.heads) +
             (u.head + line % u.heads) * head_dim;
      WriteOutput(s.merged + line * s.stride, s.merged_l[line], head_dim, y);
    }
  }
};

template <typename Micro>
struct BlockedAttentionKernel {
  static int64_t Units(const AttentionArgs& a) {
    const AttentionGroups groups = GroupsOf(a);
    return groups.count * groups.row_tiles;
  }
  static int64_t ScratchBytes(const AttentionArgs& a) {
    return AttentionScratch::Bytes(a.kv.head_dim);
  }
  static void Run(const AttentionArgs& a, Slice slice, std::byte* memory) {
    const AttentionGroups groups = GroupsOf(a);
    const AttentionScratch scratch = AttentionScratch::In(memory, a.kv.head_dim);
    for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
      const AttentionUnit u = UnitAt(a, groups, unit);
      if (a.kv.dtype == DType::kBF16) {
        BlockedAttention<Bf16, Micro>::RunUnit(a, u, scratch);
      } else {
        BlockedAttention<float, Micro>::RunUnit(a, u, scratch);
      }
    }
  }
};

}  // namespace weft::kernels
