// Matmul of bf16 rows by bf16 weights, vdpbf16ps.
//
// Tile: R rows x P panels, one register of 16 outputs each; the instruction takes 6 cycles and one
// starts per cycle, so at least 6 chains: 8 panels for one row, 4 for more (6 x 4 = 24 of the 32
// registers). Rows stay bf16: [pair][R] words, each broadcast to P instructions.
#include "kernels/matmul/driver.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

template <int R, int P>
void Bf16Tile(const TileArgs& tile) {
  v512::Floats acc[R * P];
  Unroll<R * P>([&](auto i) WEFT_INLINED {
    float* from = tile.acc + i.value / P * tile.acc_stride + i.value % P * kPanelOutputs;
    acc[i.value] = tile.first ? v512::ZeroFloats() : v512::LoadFloats(from);
  });
  const std::byte* w[P];
  const std::byte* next[P];
  Unroll<P>([&](auto p) WEFT_INLINED {
    w[p.value] = tile.w[p.value];
    next[p.value] = tile.next[p.value];
  });
  const std::byte* x = tile.x;
  const int64_t bytes = (tile.inputs + 1) / 2 * 64;
  for (int64_t at = 0; at < bytes; at += 64) {
    v512::Words pairs[P];
    Unroll<P>([&](auto p) WEFT_INLINED {
      _mm_prefetch(reinterpret_cast<const char*>(next[p.value] + at), _MM_HINT_T0);
      pairs[p.value] = v512::LoadWords(w[p.value] + at);
    });
    Unroll<R>([&](auto r) WEFT_INLINED {
      const v512::Words xv = v512::BroadcastWord(x + r.value * 4);
      Unroll<P>([&](auto p) WEFT_INLINED {
        acc[r.value * P + p.value] = v512::DotBf16(acc[r.value * P + p.value], pairs[p.value], xv);
      });
    });
    x += R * 4;
  }
  Unroll<R * P>([&](auto i) WEFT_INLINED {
    float* to = tile.acc + i.value / P * tile.acc_stride + i.value % P * kPanelOutputs;
    v512::StoreFloats(to, acc[i.value]);
  });
}

struct Core {
  static constexpr int kTileRows = 6;
  static constexpr int64_t kRowsMax = 96;
  static constexpr int64_t kXBytesMax = kHalfSmallL2;
  static constexpr int64_t kChunk = 256;
  static constexpr int kLeafPad = 1;
  static constexpr int64_t kExpandBytes = 0;

  static WEFT_INLINE int Group(int64_t rows) { return rows == 1 ? 8 : 4; }
  static WEFT_INLINE int64_t XBytes(int64_t inputs) { return inputs * 2; }

  static void PrepareX(const MatmulArgs& a, int64_t row, int rows, std::byte* to) {
    for (int r = 0; r < rows; ++r) {
      std::byte* out = to + r * 4;
      const Bf16* from = static_cast<const Bf16*>(a.x.data) + (row + r) * a.x.stride;
      for (int leaf = 0; leaf < a.w.k_leaves; ++leaf) {
        const Bf16* x = from + a.w.k_begin[leaf];
        const int64_t k = a.w.k_begin[leaf + 1] - a.w.k_begin[leaf];
        for (int64_t pair = 0; pair < k / 2; ++pair) {
          __builtin_memcpy(out + pair * rows * 4, x + pair * 2, 4);
        }
        if (k % 2 != 0) {
          const Bf16 last[2] = {x[k - 1], Bf16{}};
          __builtin_memcpy(out + k / 2 * rows * 4, last, 4);
        }
        out += (k + kLeafPad) * rows * 2;
      }
    }
  }

  static void Expand(const MatmulArgs&, const std::byte*, int64_t, const std::byte*, std::byte*) {}

  static void Tile(const MatmulArgs&, int rows, int panels, const TileArgs& tile) {
    switch (rows * 16 + panels) {
      case 16 + 8: return Bf16Tile<1, 8>(tile);
      case 16 + 4: return Bf16Tile<1, 4>(tile);
      case 32 + 4: return Bf16Tile<2, 4>(tile);
      case 48 + 4: return Bf16Tile<3, 4>(tile);
      case 64 + 4: return Bf16Tile<4, 4>(tile);
      case 80 + 4: return Bf16Tile<5, 4>(tile);
      case 96 + 4: return Bf16Tile<6, 4>(tile);
      case 16 + 1: return Bf16Tile<1, 1>(tile);
      case 32 + 1: return Bf16Tile<2, 1>(tile);
      case 48 + 1: return Bf16Tile<3, 1>(tile);
      case 64 + 1: return Bf16Tile<4, 1>(tile);
      case 80 + 1: return Bf16Tile<5, 1>(tile);
      case 96 + 1: return Bf16Tile<6, 1>(tile);
      default: __builtin_trap();
    }
  }
};

}  // namespace

extern const Kernel<MatmulArgs> kMatmulBf16Avx512;
const Kernel<MatmulArgs> kMatmulBf16Avx512{.name = "avx512bf16",
                                           .isa = Isa::kAvx512Bf16,
                                           .refuse = RefuseUnlessBf16,
                                           .avoid = AvoidSlowBf16Dots,
                                           .units = Driver<Core>::Units,
                                           .scratch_bytes = Driver<Core>::ScratchBytes,
                                           .run = Driver<Core>::Run,
                                           .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
