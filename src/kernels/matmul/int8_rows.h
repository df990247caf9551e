// int8 activations as the int8 tiles read them.
//
// Per block of 32 inputs and tile of R rows, in 4-byte words: quads [8][R], da [R],
// zero*sum of inputs 0..15 [R] and 16..31 [R] (or of all 32 in the first), f32(sum) [R].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/panel_layout.h"
#include "kernels/simd/vec.h"

namespace weft::kernels {

inline constexpr int kWordsPerBlock = 12;

static inline constexpr bool HasMin(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K ||
         type == DType::kQ5_K;
}

static WEFT_INLINE int64_t PreparedInt8Bytes(int64_t inputs) {
  return inputs / kStepInputs * kWordsPerBlock * 4;
}

static WEFT_INLINE int32_t Sum16(const int8_t* q) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += q[i];
  return sum;
}

// `zero`: what the tile's codes are above the weight's integers. |zero * sum| <= 128*32*127.
static WEFT_INLINE void PrepareInt8(const MatmulArgs& a, int zero, int64_t row, int rows,
                                    std::byte* to) {
  const int64_t blocks = a.w.k / kStepInputs;
  const int64_t first = a.w.k_begin[0] / kStepInputs;
  for (int r = 0; r < rows; ++r) {
    auto* out = reinterpret_cast<int32_t*>(to) + r;
    const int8_t* q = a.xq.q + (row + r) * a.xq.k + first * kStepInputs;
    const int64_t at = (row + r) * (a.xq.k / kStepInputs) + first;
    for (int64_t b = 0; b < blocks; ++b, q += kStepInputs, out += kWordsPerBlock * rows) {
      for (int quad = 0; quad < 8; ++quad) __builtin_memcpy(out + quad * rows, q + quad * 4, 4);
      __builtin_memcpy(out + 8 * rows, a.xq.d + at + b, 4);
      const int32_t sum = a.xq.sum[at + b];
      const float sum_float = static_cast<float>(sum);
      if (a.w.dtype == DType::kQ6_K) {
        out[9 * rows] = zero * Sum16(q);
        out[10 * rows] = zero * Sum16(q + 16);
      } else {
        out[9 * rows] = zero * sum;
      }
      __builtin_memcpy(out + 11 * rows, &sum_float, 4);
    }
  }
}

}  // namespace weft::kernels
