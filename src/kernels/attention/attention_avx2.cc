// Attention with AVX2 and FMA: register blocks of lines x keys (scores) and lines x d (values).
// K and V are packed so that both are the same walk: rows of 8 x (even, odd) pairs, of which the
// odd half is the register with its low halves cleared and the even half the register shifted up.
#include <string>

#include "kernels/attention/attention_blocks.h"

namespace weft::kernels {

extern const Kernel<AttentionArgs> kAttentionRef;

namespace {

// acc[r][v] += a[r] (one or two values) x the row at b, in the contract's order.
template <typename T, int kRows, int kVecs, typename Load>
WEFT_INLINE void Accumulate(__m256 (&acc)[kRows][kVecs], const float* a, int64_t a_stride,
                            const Load& load) {
  if constexpr (sizeof(T) == 2) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    __m256i half[kVecs];
    WEFT_UNROLL
    for (int v = 0; v < kVecs; ++v) half[v] = _mm256_and_si256(load(v), high);
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256 x = _mm256_broadcast_ss(a + r * a_stride + 1);
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        acc[r][v] = _mm256_fmadd_ps(x, _mm256_castsi256_ps(half[v]), acc[r][v]);
      }
    }
    // Read again rather than kept: the accumulators, halves, x and mask fill all 16 registers.
    asm volatile("" ::: "memory");
    WEFT_UNROLL
    for (int v = 0; v < kVecs; ++v) half[v] = _mm256_slli_epi32(load(v), 16);
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256 x = _mm256_broadcast_ss(a + r * a_stride);
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        acc[r][v] = _mm256_fmadd_ps(x, _mm256_castsi256_ps(half[v]), acc[r][v]);
      }
    }
  } else {
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256 x = _mm256_broadcast_ss(a + r * a_stride);
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        acc[r][v] = _mm256_fmadd_ps(x, _mm256_castsi256_ps(load(v)), acc[r][v]);
      }
    }
  }
}

WEFT_INLINE __m256i Load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

struct Avx2 {
  // 6 x 2 and 3 x 4 blocks have 12 accumulators too, but gcc 12 spills them.
  static constexpr int kLines = 5;

  template <typename T, int kRows, int kVecs>
  [[gnu::noinline]] static void ScoreBlock(const float* q, int64_t q_step,
                                           const std::byte* const* k, int head_dim, float* s) {
    constexpr int kStep = sizeof(T) == 2 ? 2 : 1;
    __m256 acc[kRows][kVecs];
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) acc[r][v] = _mm256_setzero_ps();
    }
    const std::byte* block[(kVecs + 1) / 2];
    for (int b = 0; b < (kVecs + 1) / 2; ++b) block[b] = k[b];
    for (int d = 0; d < head_dim; d += kStep) {
      const int64_t at = int64_t{d} / kStep * 64;
      Accumulate<T>(acc, q, kStep, [&](int v) { return Load(block[v / 2] + at + v % 2 * 32); });
      q += q_step;
    }
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) _mm256_storeu_ps(s + r * kKvTile + v * 8, acc[r][v]);
    }
  }

  template <typename T, int kRows, int kBlocks>
  static void ScoreRows(const float* q, int64_t q_step, const TileBlocks& blocks, int key_blocks,
                        int head_dim, float* s) {
    int b = 0;
    for (; b + kBlocks <= key_blocks; b += kBlocks) {
      ScoreBlock<T, kRows, kBlocks * 2>(q, q_step, blocks.k + b, head_dim, s + b * 16);
    }
    for (; b < key_blocks; ++b) {
      ScoreBlock<T, kRows, 2>(q, q_step, blocks.k + b, head_dim, s + b * 16);
    }
  }

  template <typename T>
  static void Scores(const float* q, int64_t q_step, int rows, const TileBlocks& blocks,
                     int key_blocks, int head_dim, float* s) {
    switch (rows) {
      case 1: return ScoreRows<T, 1, 4>(q, q_step, blocks, key_blocks, head_dim, s);
      case 2: return ScoreRows<T, 2, 2>(q, q_step, blocks, key_blocks, head_dim, s);
      case 3: return ScoreRows<T, 3, 1>(q, q_step, blocks, key_blocks, head_dim, s);
      case 4: return ScoreRows<T, 4, 1>(q, q_step, blocks, key_blocks, head_dim, s);
      default: return ScoreRows<T, 5, 1>(q, q_step, blocks, key_blocks, head_dim, s);
    }
  }

  template <typename T>
  static WEFT_INLINE F8 Probability(F8 x) {
    return sizeof(T) == 2 ? RoundToBf16(Exp(x)) : Exp(x);
  }

  template <typename T>
  [[gnu::noinline]] static void Softmax(float* p, float scale, int visible, float* m, float* l,
                                        float* alpha) {
    const F8 factor = F8::Set(scale);
    const F8 never = F8::Set(-__builtin_inff());
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const auto seen = [&](int v) {
      return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(visible - v * 8), lane));
    };
    F8 s[8];
    for (int v = 0; v < 8; ++v) s[v] = F8::Load(p + v * 8) * factor;
    if (visible < kKvTile) {
      for (int v = 0; v < 8; ++v) s[v].v = _mm256_blendv_ps(never.v, s[v].v, seen(v));
    }
    // Max(score, best) keeps `best` where the score is NaN.
    F8 best[2] = {never, never};
    for (int v = 0; v < 8; ++v) best[v % 2] = F8::Max(s[v], best[v % 2]);
    __m256 top = _mm256_max_ps(best[0].v, best[1].v);
    top = _mm256_max_ps(top, _mm256_permute2f128_ps(top, top, 1));
    top = _mm256_max_ps(top, _mm256_permute_ps(top, 0x4e));
    top = _mm256_max_ps(top, _mm256_permute_ps(top, 0xb1));
    const float largest = _mm256_cvtss_f32(top);
    const float before = *m;
    float rescale = 1.0f;
    if (largest > before) {
      *m = largest;
      rescale = Exp(before - largest);
    }
    *alpha = rescale;
    const F8 n = F8::Set(*m);
    F8 sums[2] = {F8::Load(l) * F8::Set(rescale), F8::Load(l + 8) * F8::Set(rescale)};
    for (int v = 0; v < 8; ++v) {
      F8 weight = Probability<T>(s[v] - n);
      if (visible < kKvTile) weight.v = _mm256_and_ps(weight.v, seen(v));
      weight.Store(p + v * 8);
      sums[v % 2] = sums[v % 2] + weight;
    }
    sums[0].Store(l);
    sums[1].Store(l + 8);
  }

  // o[r][d .. d + 8 * kVecs) over the first `groups` pairs (or keys) of the tile.
  template <typename T, int kRows, int kVecs, bool kMasked = false>
  [[gnu::noinline]] static void ValueBlock(const float* p, const TileBlocks& blocks, int groups,
                                           int head_dim, int d, const float* alpha, float* o,
                                           int64_t stride) {
    constexpr int kStep = sizeof(T) == 2 ? 2 : 1;
    constexpr int kGroups = 16 / kStep;  // in a 16-key block
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(head_dim - d),
                                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256 acc[kRows][kVecs];
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256 factor = _mm256_broadcast_ss(alpha + r);
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        acc[r][v] = _mm256_mul_ps(_mm256_loadu_ps(o + r * stride + d + v * 8), factor);
      }
    }
    for (int begin = 0; begin < groups; begin += kGroups) {
      const int end = groups - begin < kGroups ? groups - begin : kGroups;
      const std::byte* row = blocks.v[begin / kGroups] + int64_t{d} * 4;
      const float* weights = p + begin * kStep;
      for (int g = 0; g < end; ++g) {
        Accumulate<T>(acc, weights, kKvTile, [&](int v) {
          const std::byte* at = row + v * 32;
          if constexpr (kMasked)
            return _mm256_maskload_epi32(reinterpret_cast<const int*>(at), mask);
          return Load(at);
        });
        row += int64_t{head_dim} * 4;
        weights += kStep;
      }
    }
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      WEFT_UNROLL
      for (int v = 0; v < kVecs; ++v) _mm256_storeu_ps(o + r * stride + d + v * 8, acc[r][v]);
    }
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
    for (int d = 0; d < head_dim; d += 8) {
      const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(head_dim - d),
                                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      const auto load = [&](int g) {
        const std::byte* at = blocks.v[g / kGroups] + (int64_t{g % kGroups} * head_dim + d) * 4;
        return _mm256_maskload_epi32(reinterpret_cast<const int*>(at), mask);
      };
      __m256 acc[1][1] = {{_mm256_loadu_ps(o + d)}};
      for (int g = begin; g < whole; ++g) {
        Accumulate<T>(acc, p + g * kStep, 0, [&](int) { return load(g); });
      }
      if (half) {
        const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(load(whole), 16));
        acc[0][0] = _mm256_add_ps(acc[0][0], _mm256_setzero_ps());
        acc[0][0] = _mm256_fmadd_ps(_mm256_broadcast_ss(p + whole * kStep), even, acc[0][0]);
      }
      if (beyond) acc[0][0] = _mm256_add_ps(acc[0][0], _mm256_setzero_ps());
      _mm256_storeu_ps(o + d, acc[0][0]);
    }
  }

  template <typename T, int kRows, int kVecs>
  static void ValueRows(const float* p, const TileBlocks& blocks, int groups, int head_dim,
                        const float* alpha, float* o, int64_t stride) {
    int d = 0;
    for (; d + kVecs * 8 <= head_dim; d += kVecs * 8) {
      ValueBlock<T, kRows, kVecs>(p, blocks, groups, head_dim, d, alpha, o, stride);
    }
    for (; d + 8 <= head_dim; d += 8) {
      ValueBlock<T, kRows, 1>(p, blocks, groups, head_dim, d, alpha, o, stride);
    }
    if (d < head_dim) {
      ValueBlock<T, kRows, 1, true>(p, blocks, groups, head_dim, d, alpha, o, stride);
    }
  }

  template <typename T>
  static void Values(const float* p, int rows, const TileBlocks& blocks, int groups, int head_dim,
                     const float* alpha, float* o, int64_t stride) {
    switch (rows) {
      case 1: return ValueRows<T, 1, 8>(p, blocks, groups, head_dim, alpha, o, stride);
      case 2: return ValueRows<T, 2, 4>(p, blocks, groups, head_dim, alpha, o, stride);
      case 3: return ValueRows<T, 3, 2>(p, blocks, groups, head_dim, alpha, o, stride);
      case 4: return ValueRows<T, 4, 2>(p, blocks, groups, head_dim, alpha, o, stride);
      default: return ValueRows<T, 5, 2>(p, blocks, groups, head_dim, alpha, o, stride);
    }
  }
};

std::string Refuse(const AttentionArgs& a) { return kAttentionRef.refuse(a); }

}  // namespace

extern const Kernel<AttentionArgs> kAttentionAvx2{
    .name = "avx2",
    .isa = Isa::kAvx2,
    .refuse = Refuse,
    .units = BlockedAttentionKernel<Avx2>::Units,
    .scratch_bytes = BlockedAttentionKernel<Avx2>::ScratchBytes,
    .run = BlockedAttentionKernel<Avx2>::Run};

}  // namespace weft::kernels
