// Matmul of block formats by bf16 activations, AVX2: each piece of a panel is expanded once to
// weights rounded to bf16, kept as fp32 [k/2][even | odd][16], and passed over by all rows.
#include <immintrin.h>

#include "kernels/matmul/blocks_avx2.h"
#include "kernels/matmul/driver.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/accumulate.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

template <DType kType>
WEFT_INLINE void ExpandStep(const std::byte* header, const std::byte* step, int sub, float* to) {
  constexpr BlockLayout kLayout = BlockLayoutOf(kType);
  for (int half = 0; half < 2; ++half) {
    const StepScales scales = ScalesOf<kType>(header, sub, half);
    Unroll<8>([&](auto quad) WEFT_INLINED {
      const __m256i codes = Quad<kType>(step, quad.value, half);
      Unroll<4>([&](auto b) WEFT_INLINED {
        const __m256i top = _mm256_slli_epi32(codes, 24 - 8 * b.value);
        const __m256i code =
            kLayout.bits == 8 ? _mm256_srai_epi32(top, 24) : _mm256_srli_epi32(top, 24);
        const __m256i q = _mm256_sub_epi32(code, _mm256_set1_epi32(kLayout.zero));
        const F8 weight =
            F8::Fma({_mm256_cvtepi32_ps(q)}, {scales.scale[quad.value / 4]}, {scales.min});
        RoundToBf16(weight).Store(to + (quad.value * 4 + b.value) * kPanelOutputs + half * 8);
      });
    });
  }
}

template <int R>
void BlocksTile(const TileArgs& tile) {
  __m256 acc[2 * R];
  Unroll<2 * R>([&](auto i) WEFT_INLINED {
    acc[i.value] =
        tile.first ? _mm256_setzero_ps()
                   : _mm256_loadu_ps(tile.acc + i.value / 2 * tile.acc_stride + i.value % 2 * 8);
  });
  const auto* w = reinterpret_cast<const float*>(tile.w[0]);
  const auto* x = reinterpret_cast<const float*>(tile.x);
  for (int64_t k = 0; k < tile.inputs; k += 2) {
    Unroll<2>([&](auto which) WEFT_INLINED {
      constexpr int kInput = 1 - which.value;  // the odd one first
      const __m256 w0 = _mm256_load_ps(w + kInput * kPanelOutputs);
      const __m256 w1 = _mm256_load_ps(w + kInput * kPanelOutputs + 8);
      Unroll<R>([&](auto r) WEFT_INLINED {
        const __m256 xv = _mm256_broadcast_ss(x + kInput * R + r.value);
        Accumulate(acc[2 * r.value], w0, xv);
        Accumulate(acc[2 * r.value + 1], w1, xv);
      });
    });
    w += 2 * kPanelOutputs;
    x += 2 * R;
  }
  Unroll<2 * R>([&](auto i) WEFT_INLINED {
    _mm256_storeu_ps(tile.acc + i.value / 2 * tile.acc_stride + i.value % 2 * 8, acc[i.value]);
  });
}

struct Core {
  static constexpr int kTileRows = 6;
  static constexpr int64_t kRowsMax = 48;
  static constexpr int64_t kXBytesMax = kHalfSmallL2;
  static constexpr int64_t kChunk = 256;
  static constexpr int kLeafPad = 0;
  static constexpr int64_t kExpandBytes = kChunk * kPanelOutputs * 4;

  static WEFT_INLINE int Group(int64_t) { return 1; }
  static WEFT_INLINE int64_t XBytes(int64_t inputs) { return inputs * 4; }

  static void PrepareX(const MatmulArgs& a, int64_t row, int rows, std::byte* to) {
    for (int r = 0; r < rows; ++r) {
      auto* out = reinterpret_cast<float*>(to) + r;
      const int64_t from = (row + r) * a.x.stride + a.w.k_begin[0];
      if (a.x.dtype == DType::kF32) {
        const float* x = static_cast<const float*>(a.x.data) + from;
        for (int64_t i = 0; i < a.w.k; ++i) out[i * rows] = Rounded<Bf16>(x[i]);
      } else {
        const Bf16* x = static_cast<const Bf16*>(a.x.data) + from;
        for (int64_t i = 0; i < a.w.k; ++i) out[i * rows] = LoadElement(x + i);
      }
    }
  }

  static void Expand(const MatmulArgs& a, const std::byte* panel, int64_t inputs,
                     const std::byte* next, std::byte* to) {
    ForFormat(a.w.dtype, [&]<DType kType>() {
      constexpr BlockLayout kLayout = BlockLayoutOf(kType);
      const std::byte* header = panel;
      auto* out = reinterpret_cast<float*>(to);
      for (int64_t k = 0; k < inputs; k += kLayout.super_inputs) {
        const std::byte* step = header + kLayout.header_bytes;
        for (int sub = 0; sub < kLayout.super_inputs / kStepInputs; ++sub) {
          for (int i = 0; i < kLayout.step_bytes; i += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(next + (step - panel) + i), _MM_HINT_T0);
          }
          ExpandStep<kType>(header, step, sub, out);
          out += kStepInputs * kPanelOutputs;
          step += kLayout.step_bytes;
        }
        header = step;
      }
    });
  }

  static void Tile(const MatmulArgs&, int rows, int, const TileArgs& tile) {
    switch (rows) {
      case 1: return BlocksTile<1>(tile);
      case 2: return BlocksTile<2>(tile);
      case 3: return BlocksTile<3>(tile);
      case 4: return BlocksTile<4>(tile);
      case 5: return BlocksTile<5>(tile);
      case 6: return BlocksTile<6>(tile);
      default: __builtin_trap();
    }
  }
};

}  // namespace

extern const Kernel<MatmulArgs> kMatmulBlocksAvx2;
const Kernel<MatmulArgs> kMatmulBlocksAvx2{.name = "avx2:blocks",
                                           .isa = Isa::kAvx2,
                                           .refuse = RefuseUnlessBlocksByBf16,
                                           .units = Driver<Core>::Units,
                                           .scratch_bytes = Driver<Core>::ScratchBytes,
                                           .run = Driver<Core>::Run,
                                           .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
