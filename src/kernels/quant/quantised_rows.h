// Activations as int8, per row and block of 32 (docs/numerics.md 8):
//   d = amax/127, q = rint_even(x * (127/amax)), amax = 0 gives q = 0 and d = 0; sum = sum of q.
// Source of the idea: llama.cpp's Q8_0/Q8_1 activations; the rounding here is ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

inline constexpr int kQuantBlock = 32;

// Plain data over one buffer: row r has K int8 values, K/32 scales and K/32 sums.
struct QuantisedRows {
  int8_t* q = nullptr;     // [rows, K]
  float* d = nullptr;      // [rows, K/32]
  int32_t* sum = nullptr;  // [rows, K/32]
  int64_t rows = 0;
  int64_t k = 0;  // also the stride of q; K/32 is the stride of d and sum

  // Rows [begin, end) alone.
  QuantisedRows Rows(int64_t begin, int64_t end) const {
    const int64_t blocks = begin * (k / kQuantBlock);
    return {q + begin * k, d + blocks, sum + blocks, end - begin, k};
  }

  static int64_t Bytes(int64_t rows, int64_t k) { return rows * (k + k / kQuantBlock * 8); }
  // Lays the three arrays out in `buffer` (64-byte aligned, Bytes() long) of `rows_max` rows.
  static QuantisedRows In(void* buffer, int64_t rows_max, int64_t rows, int64_t k) {
    auto* bytes = static_cast<std::byte*>(buffer);
    QuantisedRows out;
    out.d = reinterpret_cast<float*>(bytes);
    out.sum = reinterpret_cast<int32_t*>(bytes + rows_max * (k / kQuantBlock) * 4);
    out.q = reinterpret_cast<int8_t*>(bytes + rows_max * (k / kQuantBlock) * 8);
    out.rows = rows;
    out.k = k;
    return out;
  }
};

struct QuantiseRowsArgs {
  View x;  // [rows, K] float32 or bfloat16; K % 32 == 0
  QuantisedRows out;
};

std::span<const Kernel<QuantiseRowsArgs>* const> QuantiseRowsKernels();

}  // namespace weft::kernels
