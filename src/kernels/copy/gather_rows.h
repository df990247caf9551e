// y[i] = x[rows[i]]: the rows that the head reads.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct GatherRowsArgs {
  View x;                         // [T, H], any dtype
  const int32_t* rows = nullptr;  // [y.rows]
  View y;                         // [R, H], the same dtype
};
std::span<const Kernel<GatherRowsArgs>* const> GatherRowsKernels();

}  // namespace weft::kernels
