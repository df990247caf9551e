// y[t] = row ids[t] of the embedding, read from the lm_head panels in place and rounded once
// (docs/numerics.md 12): block formats give fma(q, dw, m) in fp32, then the model dtype.
#pragma once

#include "kernels/kernel.h"
#include "kernels/matmul/packed_matrix.h"
#include "tensor/view.h"

namespace weft::kernels {

struct EmbedArgs {
  const int32_t* ids = nullptr;  // [T], each in [0, table.n)
  PackedMatrix table;            // [V, H], one K-leaf; panels of all ranks
  View y;                        // [T, H] float32 or bfloat16
};

std::span<const Kernel<EmbedArgs>* const> EmbedKernels();

}  // namespace weft::kernels
