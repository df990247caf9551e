// y[i] = a[i] ++ b[i]: rows side by side, as the draft head reads the next token's embedding and a
// hidden row.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct ConcatArgs {
  View a;  // [T, A]
  View b;  // [T, B], the same dtype
  View y;  // [T, A + B], likewise
};
std::span<const Kernel<ConcatArgs>* const> ConcatKernels();

}  // namespace weft::kernels
