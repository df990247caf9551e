// Matmul of block formats by int8 activations, AMX.
//
// A tile instruction gives the dots of 16 rows by 16 outputs over a whole block, in int32 and so
// exact: the same bits as any other int8 kernel. What is left for the vector unit is the contract's
// own work, per row and block a conversion, the product of the scales and an FMA (two FMAs for
// formats with a min). The two do not overlap on Sapphire Rapids: per block of 32 inputs the dot
// (16 cycles) and its store (16) take 32 cycles, the vectors 30, both together 66, so a tile cannot
// pass 1 TOP/s a core at 3.8 GHz, 4x less than dots of 64 inputs could do.
//
// The codes and scales of a piece are expanded once, to signed bytes and floats, and passed over by
// all rows of a large block; the 16 accumulators of a tile stay in registers.
// What lost: groups of 2 and 4 panels, so that a tile's rows come from L2 less often (-10 %).
//
// Dots over 16 inputs (Q6_K, two scales a block) use a tile half as wide, twice.
#include "kernels/matmul/blocks_avx512.h"
#include "kernels/matmul/driver.h"
#include "kernels/matmul/int8_rows.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/unroll.h"

namespace weft::kernels {
namespace {

constexpr int kTileRows = 16;

// One block of an expanded piece: 32 inputs of 16 outputs.
struct alignas(64) ExpandedBlock {
  int8_t codes[8][kPanelOutputs][4];
  float scale[2][kPanelOutputs];  // of inputs 0..15 and 16..31; equal but for Q6_K
  float min[kPanelOutputs];
};

// A block of a tile's prepared rows: q [R][32] int8, d [R], f32(sum of q) [R]. The tile unit reads
// 16 rows whatever R is; what it makes of the bytes behind them goes nowhere.
constexpr int64_t kPreparedBytes = kStepInputs + 8;  // a row of a block

template <DType kType>
void ExpandStep(const std::byte* header, const std::byte* step, int sub, ExpandedBlock* to) {
  const StepScales scales = ScalesOf<kType>(header, sub);
  v512::StoreFloats(to->scale[0], scales.scale[0]);
  if constexpr (kType == DType::kQ6_K) v512::StoreFloats(to->scale[1], scales.scale[1]);
  if constexpr (HasMin(kType)) v512::StoreFloats(to->min, scales.min);
  Unroll<8>([&](auto quad) WEFT_INLINED {
    v512::StoreWords(to->codes[quad.value], SignedCodes<kType, quad.value>(step));
  });
}

enum class Form { kScale, kScaleAndMin, kTwoScales };
constexpr Form FormOf(DType type) {
  return type == DType::kQ6_K ? Form::kTwoScales : HasMin(type) ? Form::kScaleAndMin : Form::kScale;
}

// Inputs of one dot.
constexpr int InputsOf(Form form) { return form == Form::kTwoScales ? 16 : kStepInputs; }

// The ring of dots between the tile unit and the vectors: [slot][half of the block][16][16] int32.
struct alignas(64) Dots {
  int32_t at[4][2][kTileRows][kPanelOutputs];
};

template <Form kForm, int kSlot>
WEFT_INLINE void Start(const ExpandedBlock& block, const std::byte* x, Dots* dots) {
  constexpr int kInputs = InputsOf(kForm);
  amx::DotTo<kSlot % 2, kInputs>(dots->at[kSlot][0], x, kStepInputs, block.codes[0]);
  if constexpr (kForm == Form::kTwoScales) {
    amx::DotTo<1 - kSlot % 2, kInputs>(dots->at[kSlot][1], x + 16, kStepInputs, block.codes[4]);
  }
}

// acc = fma(f32(dot), scale * d, acc), and then for formats with a min fma(f32(sum), min * d, acc).
template <Form kForm, int R>
WEFT_INLINE void Finish(const ExpandedBlock& block, const std::byte* x, int rows,
                        const int32_t (&dots)[2][kTileRows][kPanelOutputs], v512::Floats* acc) {
  const std::byte* d = x + int64_t{rows} * kStepInputs;
  const std::byte* sum = d + int64_t{rows} * 4;
  const v512::Floats scale = v512::LoadFloats(block.scale[0]);
  v512::Floats second = scale;
  if constexpr (kForm == Form::kTwoScales) second = v512::LoadFloats(block.scale[1]);
  if constexpr (kForm == Form::kScaleAndMin) second = v512::LoadFloats(block.min);
  Unroll<R>([&](auto r) WEFT_INLINED {
    const v512::Floats dr = v512::BroadcastFloat(d + r.value * 4);
    const v512::Floats dot = v512::ToFloats(v512::LoadWords(dots[0][r.value]));
    acc[r.value] = v512::Fma(dot, v512::Multiply(scale, dr), acc[r.value]);
    if constexpr (kForm == Form::kTwoScales) {
      const v512::Floats other = v512::ToFloats(v512::LoadWords(dots[1][r.value]));
      acc[r.value] = v512::Fma(other, v512::Multiply(second, dr), acc[r.value]);
    }
    if constexpr (kForm == Form::kScaleAndMin) {
      const v512::Floats all = v512::BroadcastFloat(sum + r.value * 4);
      acc[r.value] = v512::Fma(all, v512::Multiply(second, dr), acc[r.value]);
    }
  });
}

// R: 8 or 16, at least the tile's rows; kWhole: exactly them.
template <Form kForm, int R, bool kWhole>
void Int8Tile(const TileArgs& tile, int rows) {
  const auto* blocks = reinterpret_cast<const ExpandedBlock*>(tile.w[0]);
  const int64_t count = tile.inputs / kStepInputs;
  const int64_t x_bytes = kPreparedBytes * rows;
  v512::Floats acc[R];
  Unroll<R>([&](auto r) WEFT_INLINED {
    acc[r.value] = tile.first || (!kWhole && r.value >= rows)
                       ? v512::ZeroFloats()
                       : v512::LoadFloats(tile.acc + r.value * tile.acc_stride);
  });
  Dots dots;
  Start<kForm, 0>(blocks[0], tile.x, &dots);
  if (count > 1) Start<kForm, 1>(blocks[1], tile.x + x_bytes, &dots);
  if (count > 2) Start<kForm, 2>(blocks[2], tile.x + 2 * x_bytes, &dots);
  for (int64_t b = 0; b < count; b += 4) {
    Unroll<4>([&](auto slot) WEFT_INLINED {
      const int64_t now = b + slot.value;
      if (now >= count) return;
      const std::byte* x = tile.x + now * x_bytes;
      constexpr int kAhead = (slot.value + 3) % 4;
      if (now + 3 < count) Start<kForm, kAhead>(blocks[now + 3], x + 3 * x_bytes, &dots);
      Finish<kForm, R>(blocks[now], x, rows, dots.at[slot.value], acc);
    });
  }
  Unroll<R>([&](auto r) WEFT_INLINED {
    if (kWhole || r.value < rows) {
      v512::StoreFloats(tile.acc + r.value * tile.acc_stride, acc[r.value]);
    }
  });
}

struct Core {
  static constexpr int kTileRows = weft::kernels::kTileRows;
  static constexpr int64_t kRowsMax = 256;
  static constexpr int64_t kXBytesMax = 1024 * 1024;  // every CPU with AMX has 2 MiB of L2 a core
  static constexpr int64_t kChunk = 256;
  static constexpr int kLeafPad = 0;
  static constexpr int64_t kExpandBytes = kChunk / kStepInputs * int64_t{sizeof(ExpandedBlock)};

  static WEFT_INLINE int Group(int64_t) { return 1; }
  static WEFT_INLINE int64_t XBytes(int64_t inputs) {
    return inputs / kStepInputs * kPreparedBytes;
  }

  static void PrepareX(const MatmulArgs& a, int64_t row, int rows, std::byte* to) {
    const int64_t blocks = a.w.k / kStepInputs;
    const int64_t first = a.w.k_begin[0] / kStepInputs;
    for (int r = 0; r < rows; ++r) {
      const int8_t* q = a.xq.q + (row + r) * a.xq.k + first * kStepInputs;
      const int64_t at = (row + r) * (a.xq.k / kStepInputs) + first;
      std::byte* out = to;
      for (int64_t b = 0; b < blocks; ++b, out += kPreparedBytes * rows) {
        __builtin_memcpy(out + r * kStepInputs, q + b * kStepInputs, kStepInputs);
        std::byte* floats = out + int64_t{rows} * kStepInputs;
        __builtin_memcpy(floats + r * 4, a.xq.d + at + b, 4);
        const auto sum = static_cast<float>(a.xq.sum[at + b]);
        __builtin_memcpy(floats + (rows + r) * 4, &sum, 4);
      }
    }
  }

  static void Expand(const MatmulArgs& a, const std::byte* panel, int64_t inputs,
                     const std::byte* next, std::byte* to) {
    ForFormat(a.w.dtype, [&]<DType kType>() {
      constexpr BlockLayout kLayout = BlockLayoutOf(kType);
      const std::byte* header = panel;
      auto* out = reinterpret_cast<ExpandedBlock*>(to);
      for (int64_t k = 0; k < inputs; k += kLayout.super_inputs) {
        const std::byte* step = header + kLayout.header_bytes;
        for (int sub = 0; sub < kLayout.super_inputs / kStepInputs; ++sub) {
          for (int i = 0; i < kLayout.step_bytes; i += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(next + (step - panel) + i), _MM_HINT_T0);
          }
          ExpandStep<kType>(header, step, sub, out++);
          step += kLayout.step_bytes;
        }
        header = step;
      }
    });
  }

  template <Form kForm>
  static WEFT_INLINE void TileOf(int rows, const TileArgs& tile) {
    if (rows == 16) return Int8Tile<kForm, 16, true>(tile, rows);
    if (rows == 8) return Int8Tile<kForm, 8, true>(tile, rows);
    if (rows < 8) return Int8Tile<kForm, 8, false>(tile, rows);
    return Int8Tile<kForm, 16, false>(tile, rows);
  }
  static void Tile(const MatmulArgs& a, int rows, int, const TileArgs& tile) {
    switch (FormOf(a.w.dtype)) {
      case Form::kScale: return TileOf<Form::kScale>(rows, tile);
      case Form::kScaleAndMin: return TileOf<Form::kScaleAndMin>(rows, tile);
      case Form::kTwoScales: return TileOf<Form::kTwoScales>(rows, tile);
    }
  }
};

// What the tile unit reads behind the last row.
constexpr int64_t kSlackBytes = int64_t{kTileRows} * kStepInputs;

int64_t ScratchBytes(const MatmulArgs& a) {
  const int64_t bytes = Driver<Core>::ScratchBytes(a);
  return bytes == 0 ? 0 : bytes + kSlackBytes;
}

void Run(const MatmulArgs& a, Slice slice, std::byte* scratch) {
  if (slice.begin >= slice.end) return;
  amx::Configure(InputsOf(FormOf(a.w.dtype)));
  Driver<Core>::Run(a, slice, scratch);
  amx::Release();  // so that a switch of threads saves no tiles
}

}  // namespace

extern const Kernel<MatmulArgs> kMatmulInt8Amx;
const Kernel<MatmulArgs> kMatmulInt8Amx{.name = "amx:int8",
                                        .isa = Isa::kAmxInt8,
                                        .refuse = RefuseFewInt8Rows,
                                        .units = Driver<Core>::Units,
                                        .scratch_bytes = ScratchBytes,
                                        .run = Run,
                                        .panels = Driver<Core>::Panels};

}  // namespace weft::kernels
