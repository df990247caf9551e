// Packing of one weight leaf, once, at load (docs/numerics.md 5). Pure; any thread.
// The bytes inside a panel: packed_matrix.h for plain types, panel_layout.h for block formats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/packed_matrix.h"

namespace weft::kernels {

// Bytes of one panel (16 outputs) of k inputs; a multiple of 64.
int64_t PanelBytes(DType dtype, int64_t k);

// Packs outputs [n_begin, n_begin + count), count <= 16, inputs [k_begin, k_begin + k) of a
// row-major matrix of `dtype` whose row i starts at rows[i] (so a row order may be permuted for
// free: GGUF's q and k). dst: PanelBytes(dtype, k), zero-padded outputs.
// REQUIRES: k_begin and k are multiples of the dtype's block (k may end with the row).
void PackPanel(DType dtype, const std::byte* const* rows, int count, int64_t k_begin, int64_t k,
               std::byte* dst);

// The inverse, to fp32 (block formats dequantised by fma(q, dw, m), not rounded to bf16):
// out[i][0..k) for the panel's 16 outputs. Tests and the embedding use it.
void UnpackPanelRow(DType dtype, const std::byte* panel, int64_t k, int output, float* out);

}  // namespace weft::kernels
