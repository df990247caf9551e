// Matmul by plain weights (BF16, F16, F32), AVX2.
//
// Tile: R rows x P panels of 16 outputs in 2RP accumulators, at least 8 (an FMA takes 4 cycles, two
// start per cycle), but 6 for 3 rows: 12 would not fit beside two panels' weights, and a stream
// from memory leaves these 6 time enough. x is widened to fp32 once per row block and laid out
// [k][R], one stream whatever the row stride; each broadcast feeds 2P FMAs. A bf16 pair is split by
// a mask (odd) and a shift (even).
#include <immintrin.h>

#include "kernels/matmul/driver.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/accumulate.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

struct WeightsBf16 {
  static constexpr int kInputs = 2;  // of one step
  static constexpr int kBytes = 64;
  // Product `which` of a step, in the order of the contract: odd, then even.
  static WEFT_INLINE int InputOf(int which) { return 1 - which; }
  static WEFT_INLINE __m256 Load(const std::byte* p, int which, int half) {
    const __m256i pair = _mm256_load_si256(reinterpret_cast<const __m256i*>(p + half * 32));
    const __m256i wide =
        which == 0 ? _mm256_and_si256(pair, _mm256_set1_epi32(static_cast<int>(0xffff0000)))
                   : _mm256_slli_epi32(pair, 16);
    return _mm256_castsi256_ps(wide);
  }
};

struct WeightsF16 {
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 32;
  static WEFT_INLINE int InputOf(int) { return 0; }
  static WEFT_INLINE __m256 Load(const std::byte* p, int, int half) {
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(p + half * 16)));
  }
};

struct WeightsF32 {
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 64;
  static WEFT_INLINE int InputOf(int) { return 0; }
  static WEFT_INLINE __m256 Load(const std::byte* p, int, int half) {
    return _mm256_load_ps(reinterpret_cast<const float*>(p) + half * 8);
  }
};

template <typename W, int R, int P>
void DenseTile(const TileArgs& tile) {
  constexpr int kColumns = 2 * P;
  __m256 acc[R * kColumns];
  Unroll<R * kColumns>([&](auto i) WEFT_INLINED {
    constexpr int kRow = i.value / kColumns;
    constexpr int kColumn = i.value % kColumns;
    acc[i.value] = tile.first ? _mm256_setzero_ps()
                              : _mm256_loadu_ps(tile.acc + kRow * tile.acc_stride + kColumn * 8);
  });
  const std::byte* w[P];
  const std::byte* next[P];
  Unroll<P>([&](auto p) WEFT_INLINED {
    w[p.value] = tile.w[p.value];
    next[p.value] = tile.next[p.value];
  });
  const auto* x = reinterpret_cast<const float*>(tile.x);
  const int64_t steps = (tile.inputs + W::kInputs - 1) / W::kInputs;
  for (int64_t s = 0; s < steps; ++s) {
    Unroll<P>([&](auto p) WEFT_INLINED {
      _mm_prefetch(reinterpret_cast<const char*>(next[p.value] + s * W::kBytes), _MM_HINT_T0);
    });
    Unroll<W::kInputs>([&](auto which) WEFT_INLINED {
      // Panel by panel: two weights and one x beside the accumulators fill the 16 registers.
      Unroll<P>([&](auto p) WEFT_INLINED {
        const std::byte* at = w[p.value] + s * W::kBytes;
        const __m256 w0 = W::Load(at, which.value, 0);
        const __m256 w1 = W::Load(at, which.value, 1);
        Unroll<R>([&](auto r) WEFT_INLINED {
          const __m256 xv = _mm256_broadcast_ss(x + W::InputOf(which.value) * R + r.value);
          Accumulate(acc[r.value * kColumns + 2 * p.value], w0, xv);
          Accumulate(acc[r.value * kColumns + 2 * p.value + 1], w1, xv);
        });
      });
    });
    x += W::kInputs * R;
  }
  Unroll<R * kColumns>([&](auto i) WEFT_INLINED {
    constexpr int kRow = i.value / kColumns;
    constexpr int kColumn = i.value % kColumns;
    _mm256_storeu_ps(tile.acc + kRow * tile.acc_stride + kColumn * 8, acc[i.value]);
  });
}

struct Core {
  static constexpr int kTileRows = 6;
  static constexpr int64_t kRowsMax = 48;
  static constexpr int64_t kXBytesMax = kHalfSmallL2;
  static constexpr int64_t kChunk = 256;
  static constexpr int kLeafPad = 1;
  static constexpr int64_t kExpandBytes = 0;

  static WEFT_INLINE int Group(int64_t rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
  static WEFT_INLINE int64_t XBytes(int64_t inputs) { return inputs * 4; }

  static void PrepareX(const MatmulArgs& a, int64_t row, int rows, std::byte* to) {
    for (int r = 0; r < rows; ++r) {
      auto* out = reinterpret_cast<float*>(to) + r;
      for (int leaf = 0; leaf < a.w.k_leaves; ++leaf) {
        const int64_t begin = a.w.k_begin[leaf];
        const int64_t k = a.w.k_begin[leaf + 1] - begin;
        const int64_t from = (row + r) * a.x.stride + begin;
        if (a.x.dtype == DType::kF32) {
          const float* x = static_cast<const float*>(a.x.data) + from;
          for (int64_t i = 0; i < k; ++i) out[i * rows] = x[i];
        } else {
          const Bf16* x = static_cast<const Bf16*>(a.x.data) + from;
          for (int64_t i = 0; i < k; ++i) out[i * rows] = LoadElement(x + i);
        }
        out[k * rows] = 0.0f;
        out += (k + 1) * rows;
      }
    }
  }

  static void Expand(const MatmulArgs&, const std::byte*, int64_t, const std::byte*, std::byte*) {}

  template <typename W>
  static WEFT_INLINE void TileOf(int rows, int panels, const TileArgs& tile) {
    switch (rows * 8 + panels) {
      case 8 + 4: return DenseTile<W, 1, 4>(tile);
      case 16 + 2: return DenseTile<W, 2, 2>(tile);
      case 8 + 1: return DenseTile<W, 1, 1>(tile);
      case 16 + 1: return DenseTile<W, 2, 1>(tile);
      case 24 + 1: return DenseTile<W, 3, 1>(tile);
      case 32 + 1: return DenseTile<W, 4, 1>(tile);
      case 40 + 1: return DenseTile<W, 5, 1>(tile);
      case 48 + 1: return DenseTile<W, 6, 1>(tile);
      default: __builtin_trap();
    }
  }
  static void Tile(const MatmulArgs& a, int rows, int panels, const TileArgs& tile) {
    switch (a.w.dtype) {
      case DType::kBF16: return TileOf<WeightsBf16>(rows, panels, tile);
      case DType::kF16: return TileOf<WeightsF16>(rows, panels, tile);
      default: return TileOf<WeightsF32>(rows, panels, tile);
    }
  }
};

}  // namespace

extern const Kernel<MatmulArgs> kMatmulAvx2;
const Kernel<MatmulArgs> kMatmulAvx2{.name = "avx2",
                                     .isa = Isa::kAvx2,
                                     .refuse = RefuseUnlessPlain,
                                     .units = Driver<Core>::Units,
                                     .scratch_bytes = Driver<Core>::ScratchBytes,
                                     .run = Driver<Core>::Run,
                                     .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
