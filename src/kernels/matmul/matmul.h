// y = x W^T (+ bias), W packed by leaves; or the fp32 roots of the leaves that are here.
//
// For each row m and output n: every K-leaf is summed by itself from +0, k ascending (bf16: pairs,
// acc = fma(even, w, fma(odd, w, acc)); float16/float32: acc = fma(w, x, acc); block formats with
// int8 activations: exact int32 dot of a block, acc = fma(f32(dot), dw*da, acc), then for formats
// with a min acc = fma(f32(sum q), mw*da, acc)); then `merges` says how the subtotals are added
// (tensor/leaf_table.h). A row's operations do not depend on M or on its neighbours.
// Source: docs/numerics.md 4, 5, 8.
#pragma once

#include "kernels/kernel.h"
#include "kernels/matmul/packed_matrix.h"
#include "kernels/quant/quantised_rows.h"
#include "tensor/view.h"

namespace weft::kernels {

struct MatmulArgs {
  View x;            // [M, K] float32 or bfloat16; unused with xq
  QuantisedRows xq;  // [M, K] int8 activations (dtype of W quantised and xq.q != nullptr)
  bool int8_activations = false;
  int64_t rows = 0;  // M, live rows
  PackedMatrix w;
  const uint8_t* merges = nullptr;  // [k_leaves]: additions after each leaf
  int roots = 1;                    // subtotals left at the end
  // finish: y[m][n] = round(root + bias); REQUIRES roots == 1. Else: partials[r][m][n] = root r.
  bool finish = true;
  const float* bias = nullptr;  // [N] or nullptr
  View y;                       // [M, N] float32 or bfloat16
  float* partials = nullptr;    // [roots][M][N], N contiguous
  int64_t partials_stride = 0;  // floats from one root to the next
};

std::span<const Kernel<MatmulArgs>* const> MatmulKernels();

// The product of rows [begin, end) alone, into their places.
MatmulArgs OfRows(MatmulArgs args, int64_t begin, int64_t end);

}  // namespace weft::kernels
