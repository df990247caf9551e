// Attention with AVX-512: register blocks of lines x keys (scores) and lines x d (values).
//
// K and V are packed so that both are the same walk: registers of 16 x (even, odd) pairs, of which
// the odd half is the register with its low halves cleared and the even half the register shifted
// up; two FMAs of fp32 for each pair. vdpbf16ps would give the same bits in one instruction, but
// where it was measured it starts every second cycle and an FMA twice a cycle: with more than one
// line the two FMAs and their share of the halves take half the time.
#include <string>

#include "kernels/attention/attention_blocks.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {

extern const Kernel<AttentionArgs> kAttentionRef;

namespace {

using V = v512::F16x;

// acc[r * kVecs + v] += a[r] (one or two values) x the row at load(v), in the contract's order.
template <typename T, int kRows, int kVecs, typename Load>
WEFT_INLINE void Accumulate(v512::Floats (&acc)[kRows * kVecs], const float* a, int64_t a_stride,
                            const Load& load) {
  const auto multiply = [&](const v512::Floats(&b)[kVecs], int64_t offset) WEFT_INLINED {
    Unroll<kRows>([&](auto r) WEFT_INLINED {
      const v512::Floats x = v512::BroadcastFloat(a + r.value * a_stride + offset);
      Unroll<kVecs>([&](auto v) WEFT_INLINED {
        v512::Floats& sum = acc[r.value * kVecs + v.value];
        sum = v512::Fma(x, b[v.value], sum);
      });
    });
  };
  v512::Floats half[kVecs];
  if constexpr (sizeof(T) == 2) {
    const v512::Words high = v512::SetWords(static_cast<int32_t>(0xffff0000u));
    Unroll<kVecs>([&](auto v) WEFT_INLINED {
      half[v.value] = v512::BitsToFloats(v512::And(load(v.value), high));
    });
    multiply(half, 1);
    Unroll<kVecs>([&](auto v) WEFT_INLINED {
      half[v.value] = v512::BitsToFloats(v512::ShiftLeft(load(v.value), 16));
    });
    multiply(half, 0);
  } else {
    Unroll<kVecs>([&](auto v) WEFT_INLINED { half[v.value] = v512::BitsToFloats(load(v.value)); });
    multiply(half, 0);
  }
}

WEFT_INLINE void Prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

struct Avx512 {
  static constexpr int kLines = 12;  // 12 x 2 accumulators of the 32 registers

  // The scores of kRows lines with kVecs blocks of 16 keys.
  template <typename T, int kRows, int kVecs>
  [[gnu::noinline]] static void ScoreBlock(const float* q, int64_t q_step, const TileBlocks& blocks,
                                           int b, int head_dim, float* s) {
    constexpr int kStep = sizeof(T) == 2 ? 2 : 1;
    v512::Floats acc[kRows * kVecs];
    const std::byte* block[kVecs];
    const std::byte* ahead[kVecs];
    Unroll<kRows * kVecs>([&](auto i) WEFT_INLINED { acc[i.value] = v512::ZeroFloats(); });
    Unroll<kVecs>([&](auto v) WEFT_INLINED {
      block[v.value] = blocks.k[b + v.value];
      ahead[v.value] = blocks.next_k[b + v.value];
    });
    const int64_t bytes = int64_t{head_dim} / kStep * 64;
    for (int64_t at = 0; at < bytes; at += 64) {
      Unroll<kVecs>([&](auto v) WEFT_INLINED { Prefetch(ahead[v.value] + at); });
      Accumulate<T, kRows, kVecs>(
          acc, q, kStep, [&](int v) WEFT_INLINED { return v512::LoadWords(block[v] + at); });
      q += q_step;
    }
    Unroll<kRows * kVecs>([&](auto i) WEFT_INLINED {
      v512::StoreFloats(s + i.value / kVecs * kKvTile + i.value % kVecs * 16, acc[i.value]);
    });
  }

  template <typename T, int kRows, int kVecs>
  static void ScoreRows(const float* q, int64_t q_step, const TileBlocks& blocks, int key_blocks,
                        int head_dim, float* s) {
    int b = 0;
    for (; b + kVecs <= key_blocks; b += kVecs) {
      ScoreBlock<T, kRows, kVecs>(q, q_step, blocks, b, head_dim, s + b * 16);
    }
    for (; b < key_blocks; ++b) {
      ScoreBlock<T, kRows, 1>(q, q_step, blocks, b, head_dim, s + b * 16);
    }
  }

  template <typename T>
  static void Scores(const float* q, int64_t q_step, int rows, const TileBlocks& blocks,
                     int key_blocks, int head_dim, float* s) {
    const auto run = [&]<int kRows, int kVecs>() {
      ScoreRows<T, kRows, kVecs>(q, q_step, blocks, key_blocks, head_dim, s);
    };
    switch (rows) {
      case 1: return run.template operator()<1, 4>();
      case 2: return run.template operator()<2, 4>();
      case 3: return run.template operator()<3, 4>();
      case 4: return run.template operator()<4, 4>();
      case 5: return run.template operator()<5, 4>();
      case 6: return run.template operator()<6, 4>();
      case 7: return run.template operator()<7, 2>();
      case 8: return run.template operator()<8, 2>();
      case 9: return run.template operator()<9, 2>();
      case 10: return run.template operator()<10, 2>();
      case 11: return run.template operator()<11, 2>();
      default: return run.template operator()<12, 2>();
    }
  }

  // Exp gives one NaN, whose low half is zero, so no NaN needs care here.
  template <typename T>
  static WEFT_INLINE V Probability(V x) {
    const V p = Exp(x);
    if constexpr (sizeof(T) == 4) return p;
    const v512::Words u = v512::FloatBits(p.v);
    const v512::Words odd = v512::And(v512::ShiftRight(u, 16), v512::SetWords(1));
    const v512::Words sum = v512::Add(u, v512::Add(odd, v512::SetWords(0x7fff)));
    const v512::Words high = v512::SetWords(static_cast<int32_t>(0xffff0000u));
    return {v512::BitsToFloats(v512::And(sum, high))};
  }

  template <typename T>
  static void Softmax(float* p, float scale, int visible, float* m, float* l, float* alpha) {
    constexpr int kVecs = kKvTile / 16;
    const V factor = V::Set(scale);
    const V never = V::Set(-__builtin_inff());
    V s[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      s[v] = V::Load(p + v * 16) * factor;
      if (visible < kKvTile) s[v].v = v512::Select(FirstLanes(visible - v * 16), s[v].v, never.v);
    }
    // Max(score, best) keeps `best` where the score is NaN.
    const V low = V::Max(s[1], V::Max(s[0], never));
    const V high = V::Max(s[3], V::Max(s[2], never));
    const float largest = v512::Largest(V::Max(low, high).v);
    const float before = *m;
    float rescale = 1.0f;
    if (largest > before) {
      *m = largest;
      rescale = Exp(before - largest);
    }
    *alpha = rescale;
    const V n = V::Set(*m);
    V sum = V::Load(l) * V::Set(rescale);
    for (int v = 0; v < kVecs; ++v) {
      V weight = Probability<T>(s[v] - n);
      if (visible < kKvTile) {
        weight.v = v512::Select(FirstLanes(visible - v * 16), weight.v, v512::ZeroFloats());
      }
      weight.Store(p + v * 16);
      sum = sum + weight;
    }
    sum.Store(l);
  }

  // o[r][d .. d + 16 * kVecs) over the first `groups` pairs (or keys) of the tile.
  template <typename T, int kRows, int kVecs, bool kMasked = false>
  [[gnu::noinline]] static void ValueBlock(const float* p, const TileBlocks& blocks, int groups,
                                           int head_dim, int d, const float* alpha, float* o,
                                           int64_t stride) {
    constexpr int kStep = sizeof(T) == 2 ? 2 : 1;
    constexpr int kGroups = 16 / kStep;  // in a 16-key block
    const v512::Mask mask = FirstLanes(head_dim - d);
    v512::Floats acc[kRows * kVecs];
    Unroll<kRows * kVecs>([&](auto i) WEFT_INLINED {
      const float* from = o + i.value / kVecs * stride + d + i.value % kVecs * 16;
      acc[i.value] =
          v512::Multiply(v512::LoadFloats(from), v512::BroadcastFloat(alpha + i.value / kVecs));
    });
    // The lines of the next tile, of its four blocks in turn.
    int64_t line = int64_t{d} / 16 * (kKvTile / kStep);
    for (int begin = 0; begin < groups; begin += kGroups) {
      const int end = groups - begin < kGroups ? groups - begin : kGroups;
      const std::byte* row = blocks.v[begin / kGroups] + int64_t{d} * 4;
      const float* weights = p + begin * kStep;
      for (int g = 0; g < end; ++g) {
        Unroll<kVecs>([&](auto v) WEFT_INLINED {
          Prefetch(blocks.next_v[(line + v.value) % 4] + (line + v.value) / 4 * 64);
        });
        line += kVecs;
        Accumulate<T, kRows, kVecs>(acc, weights, kKvTile, [&](int v) WEFT_INLINED {
          if constexpr (kMasked) return v512::LoadWords(mask, row);
          return v512::LoadWords(row + v * 64);
        });
        row += int64_t{head_dim} * 4;
        weights += kStep;
      }
    }
    Unroll<kRows * kVecs>([&](auto i) WEFT_INLINED {
      float* to = o + i.value / kVecs * stride + d + i.value % kVecs * 16;
      v512::StoreFloats(to, acc[i.value]);
    });
  }

  // One line, groups from `begin`; what is not visible of the tile is +0 times +0.
  template <typename T>
  [[gnu::noinline]] static void LastValues(const float* p, const TileBlocks& blocks, int begin,
                                           int visible, int head_dim, float* o) {
    constexpr int kStep = sizeof(T) == 2 ? 2 : 1;
    constexpr int kGroups = 16 / kStep;
    const int whole = visible / kStep;
    const bool half = visible % kStep != 0;
    const bool beyond = (whole + (half ? 1 : 0)) * kStep < kKvTile;
    for (int d = 0; d < head_dim; d += 16) {
      const v512::Mask mask = FirstLanes(head_dim - d);
      const auto load = [&](int g) WEFT_INLINED {
        return v512::LoadWords(mask,
                               blocks.v[g / kGroups] + (int64_t{g % kGroups} * head_dim + d) * 4);
      };
      v512::Floats acc[1] = {v512::LoadFloats(o + d)};
      for (int g = begin; g < whole; ++g) {
        Accumulate<T, 1, 1>(acc, p + g * kStep, 0, [&](int) WEFT_INLINED { return load(g); });
      }
      if (half) {
        const v512::Floats even = v512::BitsToFloats(v512::ShiftLeft(load(whole), 16));
        acc[0] = v512::Add(acc[0], v512::ZeroFloats());
        acc[0] = v512::Fma(v512::BroadcastFloat(p + whole * kStep), even, acc[0]);
      }
      if (beyond) acc[0] = v512::Add(acc[0], v512::ZeroFloats());
      v512::StoreFloats(o + d, acc[0]);
    }
  }

  template <typename T, int kRows, int kVecs>
  static void ValueRows(const float* p, const TileBlocks& blocks, int groups, int head_dim,
                        const float* alpha, float* o, int64_t stride) {
    int d = 0;
    for (; d + kVecs * 16 <= head_dim; d += kVecs * 16) {
      ValueBlock<T, kRows, kVecs>(p, blocks, groups, head_dim, d, alpha, o, stride);
    }
    if constexpr (kVecs > 4) {
      for (; d + 64 <= head_dim; d += 64) {
        ValueBlock<T, kRows, 4>(p, blocks, groups, head_dim, d, alpha, o, stride);
      }
    }
    for (; d + 16 <= head_dim; d += 16) {
      ValueBlock<T, kRows, 1>(p, blocks, groups, head_dim, d, alpha, o, stride);
    }
    if (d < head_dim) {
      ValueBlock<T, kRows, 1, true>(p, blocks, groups, head_dim, d, alpha, o, stride);
    }
  }

  template <typename T>
  static void Values(const float* p, int rows, const TileBlocks& blocks, int groups, int head_dim,
                     const float* alpha, float* o, int64_t stride) {
    const auto run = [&]<int kRows, int kVecs>() {
      ValueRows<T, kRows, kVecs>(p, blocks, groups, head_dim, alpha, o, stride);
    };
    switch (rows) {
      case 1: return run.template operator()<1, 8>();
      case 2: return run.template operator()<2, 8>();
      case 3: return run.template operator()<3, 4>();
      case 4: return run.template operator()<4, 4>();
      case 5: return run.template operator()<5, 4>();
      case 6: return run.template operator()<6, 4>();
      case 7: return run.template operator()<7, 2>();
      case 8: return run.template operator()<8, 2>();
      case 9: return run.template operator()<9, 2>();
      case 10: return run.template operator()<10, 2>();
      case 11: return run.template operator()<11, 2>();
      default: return run.template operator()<12, 2>();
    }
  }
};

std::string Refuse(const AttentionArgs& a) { return kAttentionRef.refuse(a); }

}  // namespace

extern const Kernel<AttentionArgs> kAttentionAvx512;
const Kernel<AttentionArgs> kAttentionAvx512{
    .name = "avx512",
    .isa = Isa::kAvx512,
    .refuse = Refuse,
    .units = BlockedAttentionKernel<Avx512>::Units,
    .scratch_bytes = BlockedAttentionKernel<Avx512>::ScratchBytes,
    .run = BlockedAttentionKernel<Avx512>::Run};

}  // namespace weft::kernels
