// y[i] = x[rows[i]]: the rows that the head reads, or those that an expert gets.
#pragma once

#include "kernels/kernel.h"
#include "kernels/quant/quantised_rows.h"
#include "tensor/view.h"

namespace weft::kernels {

struct GatherRowsArgs {
  View x;                         // [T, H], any dtype; unused with int8_rows
  const int32_t* rows = nullptr;  // [y.rows], with int8_rows [yq.rows]
  View y;                         // [R, H], the same dtype
  bool int8_rows = false;  // quantised once, gathered for each expert: values, scales and sums
  QuantisedRows xq;        // [T, K]
  QuantisedRows yq;        // [R, K]
};
std::span<const Kernel<GatherRowsArgs>* const> GatherRowsKernels();

}  // namespace weft::kernels
