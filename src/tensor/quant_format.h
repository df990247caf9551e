// Rows of GGUF blocks to numbers and back.
// The formulas are docs/numerics.md 8: weight = fma(q, dw, m) in fp32, where dw = f32(d) * sc and
// m = -(f32(dmin) * m_s) are rounded once per sub-block, and m = +0 for a format without a minimum.
// Thread: any, pure functions.  Errors: none; a wrong size is our own bug (WEFT_CHECK).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace weft {

// out[i] of a row of F32, F16, BF16 or any block format. `blocks` needs no alignment.
// REQUIRES: elements is a multiple of the format's block.
void DequantiseRow(DType dtype, const void* blocks, int64_t elements, float* out);

// The parts of a row of a block format, for those who multiply integers:
//   q[elements]: signed after the zero point (Q4_0, Q5_0, Q6_K, Q8_0), or 0..31 with a minimum;
//   scales and mins: one per FactsOf(dtype).scale_elements elements. mins may be null for a format
//   without a minimum; if given, it is filled with +0.
// fma(q, scale, min) is exactly what DequantiseRow gives.
// REQUIRES: IsQuantised(dtype), elements is a multiple of the block.
void DecodeBlocks(DType dtype, const void* blocks, int64_t elements, int8_t* q, float* scales,
                  float* mins);

// Reference quantisers, for tests and for test models: honest, not clever. The K formats choose
// scales that cover each sub-block, so that no element is further off than half a step.
// REQUIRES: finite x whose scales fit fp16; elements is a multiple of the block.
void QuantiseRow(DType dtype, const float* x, int64_t elements, void* blocks);

}  // namespace weft
