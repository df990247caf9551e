// Matmul of block formats by int8 activations, AVX2.
//
// The product of two bytes is vpmaddubsw (u8 x s8, pairs summed in int16 with saturation), so every
// sum that it makes must fit. Activations are in [-127, 127].
//   4 bits, codes 0..15:  a pair is at most 15*127*2 =  3,810; 8 quads 30,480 <= 32,767
//   5 bits, codes 0..31:                31*127*2 =  7,874; 4 quads 31,496
//   6 bits, codes 0..63:                63*127*2 = 16,002; 2 quads 32,004
//   8 bits, |w| <= 128:                128*127*2 = 32,512; 1 quad
// so that many quads are added in int16 before vpmaddwd widens, and no intermediate saturates.
// Q8_0 multiplies |w| (128 as u8 for -128) by x with the sign of w; vpsignb never meets -128 in x.
// Zero points are taken off afterwards in int32: sum (u - z) x = sum u x - z sum x.
#include <immintrin.h>

#include "kernels/matmul/blocks_avx2.h"
#include "kernels/matmul/driver.h"
#include "kernels/matmul/int8_rows.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/accumulate.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

template <DType kType>
constexpr int QuadsPerInt16() {
  switch (BlockLayoutOf(kType).bits) {
    case 4: return 8;
    case 5: return 4;
    case 6: return 2;
    default: return 1;
  }
}

// dot[r] = sum over quads [kBegin, kEnd) of code * x, outputs 8*half..+7.
template <DType kType, int R, int kBegin, int kEnd>
WEFT_INLINE void Dots(const std::byte* step, int half, const int32_t* x, __m256i* dot) {
  constexpr int kQuads = kEnd - kBegin;
  constexpr int kRun = QuadsPerInt16<kType>() < kQuads ? QuadsPerInt16<kType>() : kQuads;
  const __m256i ones = _mm256_set1_epi16(1);
  Unroll<kQuads / kRun>([&](auto run) WEFT_INLINED {
    __m256i sum16[R];
    Unroll<kRun>([&](auto i) WEFT_INLINED {
      constexpr int kQuad = kBegin + run.value * kRun + i.value;
      const __m256i w = Quad<kType>(step, kQuad, half);
      const __m256i magnitude = kType == DType::kQ8_0 ? _mm256_abs_epi8(w) : w;
      Unroll<R>([&](auto r) WEFT_INLINED {
        __m256i xv = _mm256_set1_epi32(x[kQuad * R + r.value]);
        if constexpr (kType == DType::kQ8_0) xv = _mm256_sign_epi8(xv, w);
        const __m256i product = _mm256_maddubs_epi16(magnitude, xv);
        if constexpr (i.value == 0) {
          sum16[r.value] = product;
        } else {
          AddInt16(sum16[r.value], product);
        }
        // Widened at once when the run ends here: a second set of registers would spill.
        if constexpr (i.value + 1 == kRun) {
          const __m256i sum32 = _mm256_madd_epi16(sum16[r.value], ones);
          if constexpr (run.value == 0) {
            dot[r.value] = sum32;
          } else {
            AddInt32(dot[r.value], sum32);
          }
        }
      });
    });
  });
}

// acc = fma(f32(dot - correction), scale * da, acc)
template <int R, bool kCorrect>
WEFT_INLINE void Scale(const __m256i* dot, const int32_t* correction, const float* da, __m256 scale,
                       float* acc, int64_t acc_stride) {
  Unroll<R>([&](auto r) WEFT_INLINED {
    __m256i exact = dot[r.value];
    if constexpr (kCorrect) {
      exact = _mm256_sub_epi32(exact, _mm256_set1_epi32(correction[r.value]));
    }
    const __m256 factor = _mm256_mul_ps(scale, _mm256_broadcast_ss(da + r.value));
    float* to = acc + r.value * acc_stride;
    _mm256_storeu_ps(to, _mm256_fmadd_ps(_mm256_cvtepi32_ps(exact), factor, _mm256_loadu_ps(to)));
  });
}

template <DType kType, int R>
WEFT_INLINE void Step(const std::byte* header, const std::byte* step, int sub, int half,
                      const int32_t* x, float* acc, int64_t acc_stride) {
  const auto* da = reinterpret_cast<const float*>(x + 8 * R);
  const int32_t* correction = x + 9 * R;
  const StepScales scales = ScalesOf<kType>(header, sub, half);
  __m256i dot[R];
  if constexpr (kType == DType::kQ6_K) {
    Dots<kType, R, 0, 4>(step, half, x, dot);
    Scale<R, true>(dot, correction, da, scales.scale[0], acc, acc_stride);
    Dots<kType, R, 4, 8>(step, half, x, dot);
    Scale<R, true>(dot, correction + R, da, scales.scale[1], acc, acc_stride);
  } else {
    constexpr bool kCorrect = BlockLayoutOf(kType).zero != 0;
    Dots<kType, R, 0, 8>(step, half, x, dot);
    Scale<R, kCorrect>(dot, correction, da, scales.scale[0], acc, acc_stride);
  }
  if constexpr (HasMin(kType)) {
    const auto* sum = reinterpret_cast<const float*>(x + 11 * R);
    Unroll<R>([&](auto r) WEFT_INLINED {
      const __m256 factor = _mm256_mul_ps(scales.min, _mm256_broadcast_ss(da + r.value));
      float* to = acc + r.value * acc_stride;
      _mm256_storeu_ps(
          to, _mm256_fmadd_ps(_mm256_broadcast_ss(sum + r.value), factor, _mm256_loadu_ps(to)));
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
  if (tile.first) {
    for (int r = 0; r < R; ++r) {
      _mm256_storeu_ps(tile.acc + r * tile.acc_stride, _mm256_setzero_ps());
      _mm256_storeu_ps(tile.acc + r * tile.acc_stride + 8, _mm256_setzero_ps());
    }
  }
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
      Step<kType, R>(header, step, sub, 0, x, tile.acc, tile.acc_stride);
      Step<kType, R>(header, step, sub, 1, x, tile.acc + 8, tile.acc_stride);
      step += kLayout.step_bytes;
      x += kWordsPerBlock * R;
    }
    header = step;
  }
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
    PrepareInt8(a, BlockLayoutOf(a.w.dtype).zero, row, rows, to);
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

extern const Kernel<MatmulArgs> kMatmulInt8Avx2;
const Kernel<MatmulArgs> kMatmulInt8Avx2{.name = "avx2:int8",
                                         .isa = Isa::kAvx2,
                                         .refuse = RefuseUnlessInt8,
                                         .units = Driver<Core>::Units,
                                         .scratch_bytes = Driver<Core>::ScratchBytes,
                                         .run = Driver<Core>::Run,
                                         .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
