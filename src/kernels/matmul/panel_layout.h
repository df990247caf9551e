// Where the bits of a block format lie inside a panel of 16 outputs.
//
// A panel is a row of super blocks of `super_inputs` (32, or 256 for the K formats). A super block
// is a header, then one step per 32 inputs. Every bit of the file is kept and none is added, so a
// panel is exactly as long as its 16 file rows (rounded up to 64 bytes).
//
//   header  Q4_0 Q5_0 Q8_0   d[16] fp16
//           Q4_1 Q5_1        d[16] fp16, m[16] fp16
//           Q4_K Q5_K        d[16] fp16, dmin[16] fp16, low[8][16], high[4][16]: sub-block s has
//                            low = sc & 15 | (m & 15) << 4, and the nibble s % 2 of high[s / 2] is
//                            sc >> 4 | (m >> 4) << 2
//           Q6_K             d[16] fp16, sc[16][16] int8
//   step    input k = 4j + b of a step; output o
//           8 bits           [8][16][4] int8: (j, o, b)
//           4 low bits       [4][16][4]: byte (j % 4, o, b), low nibble j < 4, high nibble j >= 4
//           5th bit          before them [16][4]: bit j of byte (o, b)
//           bits 5 and 6     before them [2][16][4]: bits 2(j % 4).. of byte (j / 4, o, b)
// So 4 bytes of one output are 4 consecutive inputs, which is what vpmaddubsw and vpdpbusd add.
// Codes are stored unsigned as in the file (Q8_0: signed).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace weft::kernels {

inline constexpr int kStepInputs = 32;

struct BlockLayout {
  int super_inputs = 0;
  int header_bytes = 0;
  int step_bytes = 0;
  int high_bytes = 0;  // part of the step, before its low bits
  int bits = 0;        // of a code
  int zero = 0;        // taken off a code
};

// The functions here have internal linkage: files built for AVX-512 use them too, and none of their
// copies may become everybody's.
static inline constexpr BlockLayout BlockLayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return {32, 32, 256, 0, 4, 8};
    case DType::kQ4_1: return {32, 64, 256, 0, 4, 0};
    case DType::kQ5_0: return {32, 32, 320, 64, 5, 16};
    case DType::kQ5_1: return {32, 64, 320, 64, 5, 0};
    case DType::kQ8_0: return {32, 32, 512, 0, 8, 0};
    case DType::kQ4_K: return {256, 256, 256, 0, 4, 0};
    case DType::kQ5_K: return {256, 256, 320, 64, 5, 0};
    case DType::kQ6_K: return {256, 288, 384, 128, 6, 32};
    default: return {};
  }
}

static inline constexpr int64_t SuperBytes(const BlockLayout& layout) {
  return layout.header_bytes + int64_t{layout.super_inputs} / kStepInputs * layout.step_bytes;
}

// Bytes of the first `inputs` inputs of a panel. REQUIRES: whole blocks; even for bf16.
static inline constexpr int64_t PanelOffset(DType dtype, int64_t inputs) {
  switch (dtype) {
    case DType::kF32: return inputs * 64;
    case DType::kF16:
    case DType::kBF16: return inputs * 32;
    default: break;
  }
  const BlockLayout layout = BlockLayoutOf(dtype);
  return inputs / layout.super_inputs * SuperBytes(layout);
}

// 32 inputs of one output, decoded: weight = fma(q, scale, min).
struct StepValues {
  int8_t q[kStepInputs];
  float scale[2];  // of inputs 0..15 and 16..31; equal but for Q6_K
  float min;       // +0 for formats without one
};

// Step `step` (of 32 inputs) of output `output`. REQUIRES: IsQuantised(dtype).
StepValues DecodeStep(DType dtype, const std::byte* panel, int64_t step, int output);

}  // namespace weft::kernels
