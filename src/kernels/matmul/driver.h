// The loops around a matmul's register tile, the same for every vector variant.
//
// Unit: one block of rows times one group of panels, row blocks outermost, so that a worker's
// slice prepares the rows of a block once. For each K-leaf and each chunk of it ("piece") the
// tiles of the row block pass over the same panel bytes, which are then in L1; the accumulators
// wait in fp32 between pieces, which changes no bit. While a piece is worked on, the lines of the
// piece after it are prefetched at the same relative place, so the stream needs no guess by the
// hardware where a short leaf ends.
//
// Core, a type of the including file's anonymous namespace (so each instantiation is that file's
// own and no weak symbol leaves it), gives:
//   kTileRows            rows of the largest tile
//   kRowsMax             rows of a block, at most
//   kXBytesMax          bytes of prepared x of a block, at most: it stays in L2 beside the weights
//   kChunk               inputs of a piece; a multiple of every block and even
//   kLeafPad             extra inputs of prepared x after each leaf (odd K of bf16)
//   kExpandBytes         0, or room for one expanded piece of one panel
//   Group(rows)          panels that a tile takes at once
//   XBytes(inputs)       bytes of prepared x per row
//   PrepareX(args, row, rows, x)    rows [row, row + rows) for one tile, interleaved
//   Expand(args, piece, inputs, to)
//   Tile(args, rows, panels, tile)
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/panel_layout.h"
#include "kernels/simd/storage.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

inline constexpr int kGroupMax = 8;
inline constexpr int64_t kHalfSmallL2 = 256 * 1024;

struct TileArgs {
  const std::byte* const* w = nullptr;     // the piece, one pointer per panel
  const std::byte* const* next = nullptr;  // what to prefetch, likewise
  const std::byte* x = nullptr;            // prepared rows, at the piece
  int64_t inputs = 0;
  float* acc = nullptr;  // [rows][acc_stride]
  int64_t acc_stride = 0;
  bool first = false;  // acc starts at +0
};

template <typename Core>
struct Driver {
  static WEFT_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
  static WEFT_INLINE int64_t RowBytes(const MatmulArgs& a) {
    return Core::XBytes(a.w.k + int64_t{Core::kLeafPad} * a.w.k_leaves);
  }
  static WEFT_INLINE int64_t BlockRows(const MatmulArgs& a) {
    int64_t rows = Core::kXBytesMax / (RowBytes(a) + 1) / Core::kTileRows * Core::kTileRows;
    if (rows < Core::kTileRows) rows = Core::kTileRows;
    return Min(a.rows, Min(rows, Core::kRowsMax));
  }
  static WEFT_INLINE int64_t Groups(const MatmulArgs& a) {
    const int group = Core::Group(a.rows);
    return (a.w.panels + group - 1) / group;
  }
  static int64_t Units(const MatmulArgs& a) {
    // Without leaves there are no roots: a rank that owns none has nothing to give.
    if (a.rows == 0 || a.w.k_leaves == 0) return 0;
    const int64_t rows = BlockRows(a);
    return (a.rows + rows - 1) / rows * Groups(a);
  }

  // REQUIRES: all units are of one block of rows, else it tells those of the first.
  static Slice Panels(const MatmulArgs& a, Slice units) {
    const int group = Core::Group(a.rows);
    return {Min(units.begin * group, a.w.panels), Min(units.end * group, a.w.panels)};
  }

  static WEFT_INLINE int64_t XArea(const MatmulArgs& a) {
    return (BlockRows(a) * RowBytes(a) + 63) / 64 * 64;
  }
  static WEFT_INLINE int64_t LevelFloats(const MatmulArgs& a) {
    return BlockRows(a) * Core::Group(a.rows) * kPanelOutputs;
  }
  static int64_t ScratchBytes(const MatmulArgs& a) {
    if (a.rows == 0) return 0;
    return XArea(a) + Core::kExpandBytes +
           LevelFloats(a) * kLeavesMax * static_cast<int64_t>(sizeof(float));
  }

  // Where the work stands: panel group, leaf, inputs done in it.
  struct Piece {
    int64_t unit = 0;
    int leaf = 0;
    int64_t at = 0;
    int64_t inputs = 0;
  };

  static WEFT_INLINE int64_t LeafInputs(const MatmulArgs& a, int leaf) {
    return a.w.k_begin[leaf + 1] - a.w.k_begin[leaf];
  }
  static WEFT_INLINE Piece Sized(const MatmulArgs& a, Piece piece) {
    piece.inputs = Min(Core::kChunk, LeafInputs(a, piece.leaf) - piece.at);
    return piece;
  }
  // The piece after `piece`, or itself at the end of the slice.
  static WEFT_INLINE Piece After(const MatmulArgs& a, Piece piece, int64_t unit_end) {
    Piece next = piece;
    next.at += piece.inputs;
    if (next.at >= LeafInputs(a, piece.leaf)) {
      next.at = 0;
      if (++next.leaf == a.w.k_leaves) {
        next.leaf = 0;
        if (++next.unit == unit_end) return piece;
      }
    }
    return Sized(a, next);
  }
  // Panels of the piece's group; fills `w`.
  static WEFT_INLINE int Locate(const MatmulArgs& a, Piece piece, const std::byte** w) {
    const int group = Core::Group(a.rows);
    const int64_t first = piece.unit % Groups(a) * group;
    const int count = static_cast<int>(Min(group, a.w.panels - first));
    const int64_t offset = PanelOffset(a.w.dtype, piece.at);
    for (int p = 0; p < count; ++p) {
      w[p] = a.w.data[int64_t{piece.leaf} * a.w.panels + first + p] + offset;
    }
    return count;
  }

  static WEFT_INLINE int64_t Tiles(int64_t rows) {
    return (rows + Core::kTileRows - 1) / Core::kTileRows;
  }

  // Lines of the unit's outputs, a row apart from one another, so that no hardware guesses them:
  // they come while the tiles are computed.
  static WEFT_INLINE void PrefetchOutputs(const MatmulArgs& a, int64_t unit, int64_t row,
                                          int rows) {
    const int group = Core::Group(a.rows);
    const int64_t first_row = unit / Groups(a) * BlockRows(a) + row;
    const int64_t n = a.w.panel_begin[unit % Groups(a) * group];
    const int64_t element = a.finish && a.y.dtype != DType::kF32 ? 2 : 4;
    const auto* out =
        a.finish ? static_cast<const char*>(a.y.data) : reinterpret_cast<const char*>(a.partials);
    const int64_t stride = a.finish ? a.y.stride : a.w.n;
    for (int r = 0; r < rows; ++r) {
      const char* line = out + ((first_row + r) * stride + n) * element;
      for (int64_t i = 0; i < group * kPanelOutputs * element; i += 64)
        __builtin_prefetch(line + i, 1);
    }
  }

  static void RunPiece(const MatmulArgs& a, Piece piece, Piece next, int64_t rows,
                       const std::byte* x, std::byte* expanded, float* level) {
    const int group = Core::Group(a.rows);
    const std::byte* w[kGroupMax];
    const std::byte* ahead[kGroupMax];
    const int panels = Locate(a, piece, w);
    const int panels_ahead = Locate(a, next, ahead);
    for (int p = panels_ahead; p < panels; ++p) ahead[p] = ahead[0];
    if constexpr (Core::kExpandBytes > 0) {
      static_assert(kGroupMax > 1);
      Core::Expand(a, w[0], piece.inputs, ahead[0], expanded);
      w[0] = expanded;
      ahead[0] = expanded;
    }
    const int64_t row_bytes = RowBytes(a);
    const int64_t x_at =
        a.w.k_begin[piece.leaf] - a.w.k_begin[0] + Core::kLeafPad * piece.leaf + piece.at;
    const int64_t tiles = Tiles(rows);
    const bool opens = piece.leaf == 0 && piece.at == 0 && rows > Core::kTileRows;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      const int tile_rows = static_cast<int>(rows * (t + 1) / tiles - row);
      if (opens) PrefetchOutputs(a, piece.unit, row, tile_rows);
      TileArgs tile{.w = w,
                    .next = t == 0 ? ahead : w,
                    .x = x + row * row_bytes + Core::XBytes(x_at) * tile_rows,
                    .inputs = piece.inputs,
                    .acc = level + row * group * kPanelOutputs,
                    .acc_stride = group * kPanelOutputs,
                    .first = piece.at == 0};
      if (panels == group) {
        Core::Tile(a, tile_rows, group, tile);
        continue;
      }
      for (int p = 0; p < panels; ++p) {
        Core::Tile(a, tile_rows, 1, tile);
        ++tile.w;
        ++tile.next;
        tile.acc += kPanelOutputs;
      }
    }
  }

  // level[0] += level[1]
  static WEFT_INLINE void Merge(float* level, int64_t floats) {
    for (int64_t i = 0; i < floats; i += 8) {
      (F8::Load(level + i) + F8::Load(level + floats + i)).Store(level + i);
    }
  }

  static WEFT_INLINE void StoreFloats(float* to, const float* from, int count) {
    if (count == kPanelOutputs) {
      F8::Load(from).Store(to);
      F8::Load(from + 8).Store(to + 8);
      return;
    }
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }

  static WEFT_INLINE void StorePanel(const MatmulArgs& a, int64_t row, int64_t n, int count,
                                     const float* root) {
    float y[kPanelOutputs];
    for (int i = 0; i < kPanelOutputs; i += 8) F8::Load(root + i).Store(y + i);
    if (a.bias != nullptr) {
      float bias[kPanelOutputs] = {};
      StoreFloats(bias, a.bias + n, count);
      for (int i = 0; i < kPanelOutputs; i += 8) {
        (F8::Load(y + i) + F8::Load(bias + i)).Store(y + i);
      }
    }
    if (a.y.dtype == DType::kF32) {
      StoreFloats(static_cast<float*>(a.y.data) + row * a.y.stride + n, y, count);
      return;
    }
    auto* to = static_cast<Bf16*>(a.y.data) + row * a.y.stride + n;
    if (count == kPanelOutputs) {
      Store8(to, F8::Load(y));
      Store8(to + 8, F8::Load(y + 8));
      return;
    }
    Bf16 rounded[kPanelOutputs];
    Store8(rounded, F8::Load(y));
    Store8(rounded + 8, F8::Load(y + 8));
    for (int i = 0; i < count; ++i) to[i] = rounded[i];
  }

  static void StoreUnit(const MatmulArgs& a, int64_t unit, int64_t row_begin, int64_t rows,
                        const float* levels, int64_t level_floats) {
    const int group = Core::Group(a.rows);
    const int64_t first = unit % Groups(a) * group;
    const int64_t end = Min(first + group, a.w.panels);
    for (int64_t panel = first; panel < end; ++panel) {
      const int64_t n = a.w.panel_begin[panel];
      const int count = static_cast<int>(a.w.panel_begin[panel + 1] - n);
      for (int64_t row = 0; row < rows; ++row) {
        const float* from = levels + (row * group + panel - first) * kPanelOutputs;
        if (a.finish) {
          StorePanel(a, row_begin + row, n, count, from);
          continue;
        }
        for (int r = 0; r < a.roots; ++r) {
          StoreFloats(a.partials + r * a.partials_stride + (row_begin + row) * a.w.n + n,
                      from + r * level_floats, count);
        }
      }
    }
  }

  static void Run(const MatmulArgs& a, Slice slice, std::byte* scratch) {
    if (slice.begin >= slice.end) return;
    std::byte* x = scratch;
    std::byte* expanded = x + XArea(a);
    auto* levels = reinterpret_cast<float*>(expanded + Core::kExpandBytes);
    const int64_t block_rows = BlockRows(a);
    const int64_t level_floats = LevelFloats(a);
    int64_t prepared = -1;
    Piece piece = Sized(a, {.unit = slice.begin});
    while (true) {
      const int64_t unit = piece.unit;
      const int64_t row_begin = unit / Groups(a) * block_rows;
      const int64_t rows = Min(block_rows, a.rows - row_begin);
      if (row_begin != prepared) {
        const int64_t tiles = Tiles(rows);
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t row = rows * t / tiles;
          Core::PrepareX(a, row_begin + row, static_cast<int>(rows * (t + 1) / tiles - row),
                         x + row * RowBytes(a));
        }
        prepared = row_begin;
      }
      int top = 0;
      for (int leaf = 0; leaf < a.w.k_leaves; ++leaf) {
        float* level = levels + top * level_floats;
        while (true) {
          const Piece next = After(a, piece, slice.end);
          RunPiece(a, piece, next, rows, x, expanded, level);
          const bool leaf_ends = piece.at + piece.inputs >= LeafInputs(a, leaf);
          piece = next;
          if (leaf_ends) break;
        }
        ++top;
        for (int i = 0; i < a.merges[leaf]; ++i) {
          Merge(levels + (top - 2) * level_floats, level_floats);
          --top;
        }
      }
      StoreUnit(a, unit, row_begin, rows, levels, level_floats);
      if (piece.unit == unit) return;
    }
  }
};

}  // namespace weft::kernels
