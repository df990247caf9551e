// Matmul by plain weights (BF16, F16, F32), AVX-512 F.
//
// Tile: R rows x P panels, one register of 16 outputs each; an FMA takes 4 cycles and two start per
// cycle, so at least 8 chains: 8 panels for one row, 4 for a few, 2 for many (12 x 2 = 24 of the 32
// registers), where each weight that is loaded and widened feeds 12 FMAs. x is widened to fp32 once
// per row block and laid out [k][R]; a broadcast is part of the FMA. A bf16 pair is split by a mask
// (odd) and a shift (even).
// For bf16 it does what vdpbf16ps does, in twice the FMAs: the better choice where that instruction
// starts every second cycle only (matmul_bf16_avx512.cc).
#include "kernels/matmul/driver.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

struct WeightsBf16 {
  static constexpr int kInputs = 2;  // of one step
  static constexpr int kBytes = 64;
  // Product `which` of a step, in the order of the contract: odd, then even.
  static WEFT_INLINE int InputOf(int which) { return 1 - which; }
  static WEFT_INLINE v512::Floats Load(const std::byte* p, int which) {
    const v512::Words pair = v512::LoadWords(p);
    return v512::BitsToFloats(which == 0
                                  ? v512::And(pair, v512::SetWords(static_cast<int>(0xffff0000)))
                                  : v512::ShiftLeft(pair, 16));
  }
};

struct WeightsF16 {
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 32;
  static WEFT_INLINE int InputOf(int) { return 0; }
  static WEFT_INLINE v512::Floats Load(const std::byte* p, int) { return v512::LoadHalves(p); }
};

struct WeightsF32 {
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 64;
  static WEFT_INLINE int InputOf(int) { return 0; }
  static WEFT_INLINE v512::Floats Load(const std::byte* p, int) {
    return v512::LoadFloats(reinterpret_cast<const float*>(p));
  }
};

template <typename W, int R, int P>
void DenseTile(const TileArgs& tile) {
  v512::Floats acc[R * P];
  Unroll<R * P>([&](auto i) WEFT_INLINED {
    const float* from = tile.acc + i.value / P * tile.acc_stride + i.value % P * kPanelOutputs;
    acc[i.value] = tile.first ? v512::ZeroFloats() : v512::LoadFloats(from);
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
    const int64_t at = s * W::kBytes;
    Unroll<P>([&](auto p) WEFT_INLINED {
      _mm_prefetch(reinterpret_cast<const char*>(next[p.value] + at), _MM_HINT_T0);
    });
    Unroll<W::kInputs>([&](auto which) WEFT_INLINED {
      v512::Floats weights[P];
      Unroll<P>([&](auto p)
                    WEFT_INLINED { weights[p.value] = W::Load(w[p.value] + at, which.value); });
      Unroll<R>([&](auto r) WEFT_INLINED {
        const v512::Floats xv = v512::BroadcastFloat(x + W::InputOf(which.value) * R + r.value);
        Unroll<P>([&](auto p) WEFT_INLINED {
          v512::Floats& sum = acc[r.value * P + p.value];
          sum = v512::Fma(weights[p.value], xv, sum);
        });
      });
    });
    x += W::kInputs * R;
  }
  Unroll<R * P>([&](auto i) WEFT_INLINED {
    float* to = tile.acc + i.value / P * tile.acc_stride + i.value % P * kPanelOutputs;
    v512::StoreFloats(to, acc[i.value]);
  });
}

struct Core {
  static constexpr int kTileRows = 12;
  static constexpr int64_t kRowsMax = 96;
  static constexpr int64_t kXBytesMax = kHalfSmallL2;
  static constexpr int64_t kChunk = 256;
  static constexpr int kLeafPad = 1;
  static constexpr int64_t kExpandBytes = 0;

  static WEFT_INLINE int Group(int64_t rows) { return rows == 1 ? 8 : rows <= 6 ? 4 : 2; }
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

  template <typename W, int P, int R = 1>
  static WEFT_INLINE void TileOfRows(int rows, const TileArgs& tile) {
    if constexpr (R > kTileRows) {
      __builtin_trap();
    } else {
      if (rows == R) return DenseTile<W, R, P>(tile);
      TileOfRows<W, P, R + 1>(rows, tile);
    }
  }
  template <typename W>
  static void TileOf(int rows, int panels, const TileArgs& tile) {
    switch (panels) {
      case 8: return DenseTile<W, 1, 8>(tile);
      case 4:
        switch (rows) {
          case 2: return DenseTile<W, 2, 4>(tile);
          case 3: return DenseTile<W, 3, 4>(tile);
          case 4: return DenseTile<W, 4, 4>(tile);
          case 5: return DenseTile<W, 5, 4>(tile);
          case 6: return DenseTile<W, 6, 4>(tile);
          default: __builtin_trap();
        }
      case 2: return TileOfRows<W, 2>(rows, tile);
      case 1: return TileOfRows<W, 1>(rows, tile);
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

extern const Kernel<MatmulArgs> kMatmulAvx512;
const Kernel<MatmulArgs> kMatmulAvx512{.name = "avx512",
                                       .isa = Isa::kAvx512,
                                       .refuse = RefuseUnlessPlain,
                                       .units = Driver<Core>::Units,
                                       .scratch_bytes = Driver<Core>::ScratchBytes,
                                       .run = Driver<Core>::Run,
                                       .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
