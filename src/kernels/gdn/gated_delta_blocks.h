// The gated delta rule for the instruction sets.
//
// Rows go in blocks: the unit brings q and k of a block to length 1 once, into scratch, and then
// every tile of columns walks down the rows of the block while its part of the state, Dk by 16 or
// 32 floats, stays in L1. A segment of one row is one sweep over the state in place: a tile comes
// from memory while the one before it is worked on.
//
// The logged rows of a segment are all in its last block, where they work on a copy of the tile.
// gamma and k of the log are written when every tile has read what is to be replayed.
#pragma once

#include <cstring>
#include <string>

#include "kernels/gdn/gated_delta.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/math.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {

extern const Kernel<GatedDeltaArgs> kGatedDeltaRef;

namespace {

// kVectors registers of columns of one head's state. Vector u of row i is at state + 16 i + apart
// u. The sweeps copy it first: behind a pointer GCC reads it again after every store.
template <typename L, int kVectors>
struct DeltaTile {
  using V = typename L::V;
  static constexpr int kColumns = kVectors * L::kLanes;
  static constexpr int kTiles = kColumns / kDeltaTile;

  float* state;
  int64_t apart;
  int dim;

  WEFT_INLINE float* At(int i, int u) const { return state + i * kDeltaTile + u * apart; }

  // Of the tile behind this one, what lies beside row i. The second sweep asks for it, which has
  // the time: one row over a state in memory, Zen 3, one core of a shared machine: 27 GB/s read and
  // written; 22 if the first sweep asks or none.
  template <bool kAhead>
  WEFT_INLINE void Prefetch(int i) const {
    if constexpr (kAhead) {
      Unroll<kTiles>([&](auto t) WEFT_INLINED {
        const float* next = state + ((kTiles + t.value) * int64_t{dim} + i) * kDeltaTile;
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
      });
    }
  }

  WEFT_INLINE static void Tree(const V (&sum)[4][kVectors], V (&out)[kVectors]) {
    Unroll<kVectors>([&](auto u) WEFT_INLINED {
      out[u.value] = (sum[0][u.value] + sum[1][u.value]) + (sum[2][u.value] + sum[3][u.value]);
    });
  }

  // f(i, c) for every row i, of chain c.
  template <typename F>
  WEFT_INLINE void EachRow(const F& f) const {
    int i = 0;
    for (; i + 4 <= dim; i += 4) {
      Unroll<4>([&](auto c) WEFT_INLINED { f(i + c.value, c); });
    }
    Unroll<3>([&](auto c) WEFT_INLINED {
      if (i + c.value < dim) f(i + c.value, c);
    });
  }

  WEFT_INLINE static void Clear(V (&sum)[4][kVectors]) {
    Unroll<4>([&](auto c) WEFT_INLINED {
      Unroll<kVectors>([&](auto u) WEFT_INLINED { sum[c.value][u.value] = V::Zero(); });
    });
  }

  WEFT_INLINE void Dot(const float* k, V (&dot)[kVectors]) const {
    const DeltaTile tile = *this;
    V sum[4][kVectors];
    Clear(sum);
    tile.EachRow([&](int i, auto c) WEFT_INLINED {
      const V ki = V::Set(k[i]);
      Unroll<kVectors>([&](auto u) WEFT_INLINED {
        V& acc = sum[c.value][u.value];
        acc = V::Fma(ki, V::Load(tile.At(i, u.value)), acc);
      });
    });
    Tree(sum, dot);
  }

  WEFT_INLINE void Update(const float* k, V gamma, const V (&e)[kVectors]) const {
    const DeltaTile tile = *this;
    for (int i = 0; i < tile.dim; ++i) {
      const V ki = V::Set(k[i]);
      Unroll<kVectors>([&](auto u) WEFT_INLINED {
        float* at = tile.At(i, u.value);
        V::Fma(ki, e[u.value], gamma * V::Load(at)).Store(at);
      });
    }
  }

  template <bool kAhead>
  WEFT_INLINE void UpdateAndRead(const float* k, const float* q, V gamma, const V (&e)[kVectors],
                                 V (&o)[kVectors]) const {
    const DeltaTile tile = *this;
    V sum[4][kVectors];
    Clear(sum);
    tile.EachRow([&](int i, auto c) WEFT_INLINED {
      const V ki = V::Set(k[i]);
      const V qi = V::Set(q[i]);
      Unroll<kVectors>([&](auto u) WEFT_INLINED {
        float* at = tile.At(i, u.value);
        const V s = V::Fma(ki, e[u.value], gamma * V::Load(at));
        s.Store(at);
        V& acc = sum[c.value][u.value];
        acc = V::Fma(qi, s, acc);
      });
      tile.template Prefetch<kAhead>(i);
    });
    Tree(sum, o);
  }
};

template <typename L>
struct GatedDeltaBlocks {
  using V = typename L::V;
  // q and k of a block are 64 KiB at Dk = 128, read in order by every tile, of which a block reads
  // and writes each once.
  static constexpr int kRows = kDeltaLogMax;
  // AVX2: four chains of two registers and what they need are all 16; 70 to 75 % of the peak of
  // FMAs at 128 by 128 (Zen 3), where the first sweep waits for its loads. AVX-512: two tiles at
  // once, for the latency of its chains.
  static constexpr int kVectors = 2;
  using Tile = DeltaTile<L, kVectors>;

  // One worker's memory.
  struct Scratch {
    float* q;      // [kRows][stride]
    float* k;      // [kRows][stride]
    float* gamma;  // [kRows]
    float* beta;   // [kRows]
    float* tile;   // the state of a tile that logged rows work on
    int64_t stride;

    static int64_t Floats(int dim) {
      return 2 * kRows * (DeltaStateLayout::Padded(dim) + 1) + int64_t{dim} * Tile::kColumns;
    }
    static Scratch In(std::byte* memory, int dim) {
      const int64_t stride = DeltaStateLayout::Padded(dim);
      auto* q = reinterpret_cast<float*>(memory);
      float* gamma = q + 2 * kRows * stride;
      return {q, q + kRows * stride, gamma, gamma + kRows, gamma + 2 * kRows, stride};
    }
  };

  // Rows [begin, end) of a head of a segment.
  struct Block {
    const GatedDeltaArgs& a;
    const Segment& s;
    int head;
    DeltaStateLayout layout;
    Scratch scratch;
    int begin = 0;
    int end = 0;

    float* slot() const { return a.state + s.state * a.state_stride; }
    int settled() const { return s.rows - s.logged; }
    float* record(int row) const { return slot() + layout.record_offset(row, head); }
  };

  template <typename T>
  static void Normalise(const T* x, int dim, float gain, float* out) {
    const V scale = V::Set(1.0f / __builtin_sqrtf(SumOfSquares<L>(x, dim) + 1e-6f));
    const V gains = V::Set(gain);
    for (int i = 0; i < dim; i += L::kLanes) {
      ((L::LoadFirst(x + i, dim - i) * scale) * gains).Store(out + i);
    }
  }

  template <typename T>
  static void Prepare(const Block& block) {
    const GatedDeltaArgs& a = block.a;
    const int head = block.head;
    const int64_t key_begin = int64_t{a.key_of_head[head]} * a.key_dim;
    const float root = 1.0f / __builtin_sqrtf(static_cast<float>(a.key_dim));
    for (int r = block.begin; r < block.end; ++r) {
      const int64_t t = block.s.row_begin + r;
      const int at = r - block.begin;
      Normalise(a.k.row<const T>(t) + key_begin, a.key_dim, 1.0f,
                block.scratch.k + at * block.scratch.stride);
      Normalise(a.q.row<const T>(t) + key_begin, a.key_dim, root,
                block.scratch.q + at * block.scratch.stride);
      const float rate = Softplus(LoadElement(a.a.row<const T>(t) + head) + a.dt_bias[head]);
      block.scratch.gamma[at] = Exp(a.neg_exp_a[head] * rate);
      block.scratch.beta[at] = Sigmoid(F1{LoadElement(a.b.row<const T>(t) + head)}).v;
    }
  }

  // log: where e goes as well, or nullptr.
  template <bool kAhead, typename T, int kWidth>
  static void Row(const Block& block, const DeltaTile<L, kWidth>& tile, int r, int64_t column,
                  float* log) {
    const GatedDeltaArgs& a = block.a;
    const int at = r - block.begin;
    const float* k = block.scratch.k + at * block.scratch.stride;
    const float* q = block.scratch.q + at * block.scratch.stride;
    const V gamma = V::Set(block.scratch.gamma[at]);
    const V beta = V::Set(block.scratch.beta[at]);
    const int64_t begin = int64_t{block.head} * a.value_dim + column;
    const int64_t left = a.value_dim - column;
    const T* v = a.v.row<const T>(block.s.row_begin + r) + begin;
    T* y = a.y.row<T>(block.s.row_begin + r) + begin;

    V dot[kWidth], e[kWidth], o[kWidth];
    tile.Dot(k, dot);
    Unroll<kWidth>([&](auto u) WEFT_INLINED {
      constexpr int kAt = u.value * L::kLanes;
      e[u.value] = beta * (L::LoadFirst(v + kAt, left - kAt) - gamma * dot[u.value]);
      if (log != nullptr) e[u.value].Store(log + kAt);
    });
    tile.template UpdateAndRead<kAhead>(k, q, gamma, e, o);
    Unroll<kWidth>([&](auto u) WEFT_INLINED {
      constexpr int kAt = u.value * L::kLanes;
      L::StoreFirst(y + kAt, left - kAt, o[u.value]);
    });
  }

  template <int kWidth, typename T>
  static void WalkTile(const Block& block, int index) {
    using Part = DeltaTile<L, kWidth>;
    const DeltaStateLayout& layout = block.layout;
    const int64_t floats = Part::kTiles * layout.tile_floats();
    const int64_t column = int64_t{index} * kDeltaTile;
    Part tile{block.slot() + layout.head_offset(block.head) + index * layout.tile_floats(),
              Part::kColumns == kDeltaTile ? L::kLanes : layout.tile_floats(), layout.key_dim};
    if (block.begin == 0) {
      if (block.s.position_begin == 0) {
        std::memset(tile.state, 0, sizeof(float) * static_cast<size_t>(floats));
      }
      for (int row = 0; row < block.s.replay; ++row) {
        const float* record = block.record(row);
        V e[kWidth];
        Unroll<kWidth>([&](auto u) WEFT_INLINED {
          e[u.value] = V::Load(record + layout.error_offset() + column + u.value * L::kLanes);
        });
        tile.Update(record + DeltaStateLayout::key_offset(),
                    V::Set(record[DeltaStateLayout::gamma_offset()]), e);
      }
    }
    const int settled = block.settled() < block.end ? block.settled() : block.end;
    for (int r = block.begin; r + 1 < settled; ++r) {
      Row<false, T>(block, tile, r, column, nullptr);
    }
    if (block.begin < settled) Row<true, T>(block, tile, settled - 1, column, nullptr);
    if (settled == block.end) return;

    std::memcpy(block.scratch.tile, tile.state, sizeof(float) * static_cast<size_t>(floats));
    tile.state = block.scratch.tile;
    const int first = block.settled();
    for (int r = first; r < block.end; ++r) {
      Row<false, T>(block, tile, r, column,
                    block.record(r - first) + layout.error_offset() + column);
    }
  }

  static void LogKeys(const Block& block) {
    for (int r = block.settled(); r < block.end; ++r) {
      float* record = block.record(r - block.settled());
      const int at = r - block.begin;
      record[DeltaStateLayout::gamma_offset()] = block.scratch.gamma[at];
      std::memcpy(record + DeltaStateLayout::key_offset(),
                  block.scratch.k + at * block.scratch.stride,
                  sizeof(float) * static_cast<size_t>(block.a.key_dim));
    }
  }

  template <typename T>
  static void Unit(const GatedDeltaArgs& a, const Segment& s, int head, const Scratch& scratch) {
    Block block{a, s, head, a.layout(), scratch};
    do {
      const int left = s.rows - block.begin;
      block.end = left <= kRows ? s.rows : block.begin + kRows;
      if (block.end < s.rows && block.end > block.settled()) block.end = block.settled();
      Prepare<T>(block);
      int tile = 0;
      for (; tile + Tile::kTiles <= block.layout.tiles(); tile += Tile::kTiles) {
        WalkTile<kVectors, T>(block, tile);
      }
      if (tile < block.layout.tiles()) WalkTile<kVectors / Tile::kTiles, T>(block, tile);
      if (block.end == s.rows) LogKeys(block);
      block.begin = block.end;
    } while (block.begin < s.rows);
  }

  static std::string Refuse(const GatedDeltaArgs& a) { return kGatedDeltaRef.refuse(a); }

  static int64_t Units(const GatedDeltaArgs& a) { return kGatedDeltaRef.units(a); }

  static int64_t ScratchBytes(const GatedDeltaArgs& a) {
    return Scratch::Floats(a.key_dim) * static_cast<int64_t>(sizeof(float));
  }

  static void Run(const GatedDeltaArgs& a, Slice slice, std::byte* memory) {
    const Scratch scratch = Scratch::In(memory, a.key_dim);
    for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
      const Segment& s = a.segments[unit % a.segment_count];
      const auto head = static_cast<int>(unit / a.segment_count);
      a.y.dtype == DType::kBF16 ? Unit<Bf16>(a, s, head, scratch)
                                : Unit<float>(a, s, head, scratch);
    }
  }
};

}  // namespace
}  // namespace weft::kernels
