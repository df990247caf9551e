// Matmul of block formats by int8 activations, vpdpbusd.
//
// The instruction adds four products of u8 and s8 to an int32 and does not saturate: at most
// 8 quads * 4 * 255 * 127 = 1,036,320 in magnitude. Codes are unsigned as stored; Q8_0's are made
// so by w ^ 0x80 = w + 128. What codes are above the integers is taken off in int32.
#include "kernels/matmul/blocks_avx512.h"
#include "kernels/matmul/driver.h"
#include "kernels/matmul/for_format.h"
#include "kernels/matmul/int8_rows.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

// acc = fma(f32(sum over quads [kBegin, kEnd) of code * x - correction), scale * da, acc)
template <DType kType, int R, int kBegin, int kEnd>
WEFT_INLINE void AddDots(const std::byte* step, const int32_t* x, const int32_t* correction,
                         v512::Floats scale, v512::Floats* acc) {
  v512::Words dot[R];
  Unroll<R>([&](auto r) WEFT_INLINED { dot[r.value] = v512::ZeroWords(); });
  Unroll<kEnd - kBegin>([&](auto i) WEFT_INLINED {
    constexpr int kQuad = kBegin + i.value;
    const v512::Words codes = Codes<kType, kQuad>(step);
    Unroll<R>([&](auto r) WEFT_INLINED {
      dot[r.value] =
          v512::DotInt8(dot[r.value], codes, v512::BroadcastWord(x + kQuad * R + r.value));
    });
  });
  Unroll<R>([&](auto r) WEFT_INLINED {
    v512::Words exact = dot[r.value];
    if constexpr (ZeroOf(kType) != 0) {
      exact = v512::Subtract(exact, v512::BroadcastWord(correction + r.value));
    }
    const v512::Floats factor = v512::Multiply(scale, v512::BroadcastFloat(x + 8 * R + r.value));
    acc[r.value] = v512::Fma(v512::ToFloats(exact), factor, acc[r.value]);
  });
}

template <DType kType, int R>
WEFT_INLINE void Step(const std::byte* header, const std::byte* step, int sub, const int32_t* x,
                      v512::Floats* acc) {
  const int32_t* correction = x + 9 * R;
  const StepScales scales = ScalesOf<kType>(header, sub);
  if constexpr (kType == DType::kQ6_K) {
    AddDots<kType, R, 0, 4>(step, x, correction, scales.scale[0], acc);
    AddDots<kType, R, 4, 8>(step, x, correction + R, scales.scale[1], acc);
  } else {
    AddDots<kType, R, 0, 8>(step, x, correction, scales.scale[0], acc);
  }
  if constexpr (HasMin(kType)) {
    Unroll<R>([&](auto r) WEFT_INLINED {
      const v512::Floats factor =
          v512::Multiply(scales.min, v512::BroadcastFloat(x + 8 * R + r.value));
      acc[r.value] = v512::Fma(v512::BroadcastFloat(x + 11 * R + r.value), factor, acc[r.value]);
    });
  }
}

WEFT_INLINE void Prefetch(const std::byte* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
}

template <DType kType, int R>
void Int8Tile(const TileArgs& tile) {
  constexpr BlockLayout kLayout = BlockLayoutOf(kType);
  v512::Floats acc[R];
  Unroll<R>([&](auto r) WEFT_INLINED {
    acc[r.value] =
        tile.first ? v512::ZeroFloats() : v512::LoadFloats(tile.acc + r.value * tile.acc_stride);
  });
  const std::byte* header = tile.w[0];
  const std::byte* next = tile.next[0];
  const auto* x = reinterpret_cast<const int32_t*>(tile.x);
  for (int64_t k = 0; k < tile.inputs; k += kLayout.super_inputs) {
    Prefetch(next, kLayout.header_bytes);
    next += kLayout.header_bytes;
    const std::byte* step = header + kLayout.header_bytes;
    for (int sub = 0; sub < kLayout.super_inputs / kStepInputs; ++sub) {
      Prefetch(next, kLayout.step_bytes);
      next += kLayout.step_bytes;
      Step<kType, R>(header, step, sub, x, acc);
      step += kLayout.step_bytes;
      x += kWordsPerBlock * R;
    }
    header = step;
  }
  Unroll<R>([&](auto r) WEFT_INLINED {
    v512::StoreFloats(tile.acc + r.value * tile.acc_stride, acc[r.value]);
  });
}

struct Core {
  static constexpr int kTileRows = 8;
  static constexpr int64_t kRowsMax = 64;
  static constexpr int64_t kXBytesMax = kHalfSmallL2;
  static constexpr int64_t kChunk = 256;
  static constexpr int kLeafPad = 0;
  static constexpr int64_t kExpandBytes = 0;

  static WEFT_INLINE int Group(int64_t) { return 1; }
  static WEFT_INLINE int64_t XBytes(int64_t inputs) { return PreparedInt8Bytes(inputs); }
  static void PrepareX(const MatmulArgs& a, int64_t row, int rows, std::byte* to) {
    PrepareInt8(a, ZeroOf(a.w.dtype), row, rows, to);
  }
  static void Expand(const MatmulArgs&, const std::byte*, int64_t, const std::byte*, std::byte*) {}

  static void Tile(const MatmulArgs& a, int rows, int, const TileArgs& tile) {
    ForFormat(a.w.dtype, [&]<DType kType>() {
      switch (rows) {
        case 1: return Int8Tile<kType, 1>(tile);
        case 2: return Int8Tile<kType, 2>(tile);
        case 3: return Int8Tile<kType, 3>(tile);
        case 4: return Int8Tile<kType, 4>(tile);
        case 5: return Int8Tile<kType, 5>(tile);
        case 6: return Int8Tile<kType, 6>(tile);
        case 7: return Int8Tile<kType, 7>(tile);
        case 8: return Int8Tile<kType, 8>(tile);
        default: __builtin_trap();
      }
    });
  }
};

}  // namespace

extern const Kernel<MatmulArgs> kMatmulInt8Avx512;
const Kernel<MatmulArgs> kMatmulInt8Avx512{.name = "avx512vnni:int8",
                                           .isa = Isa::kAvx512Vnni,
                                           .refuse = RefuseUnlessInt8,
                                           .units = Driver<Core>::Units,
                                           .scratch_bytes = Driver<Core>::ScratchBytes,
                                           .run = Driver<Core>::Run,
                                           .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
