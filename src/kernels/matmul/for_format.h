// From a block format at run time to one at compile time.
#pragma once

#include "kernels/simd/vec.h"
#include "tensor/dtype.h"

namespace weft::kernels {

// Calls f with the format as a compile-time constant. REQUIRES: IsQuantised(dtype).
template <typename F>
static WEFT_INLINE void ForFormat(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kQ4_0: return f.template operator()<DType::kQ4_0>();
    case DType::kQ4_1: return f.template operator()<DType::kQ4_1>();
    case DType::kQ5_0: return f.template operator()<DType::kQ5_0>();
    case DType::kQ5_1: return f.template operator()<DType::kQ5_1>();
    case DType::kQ8_0: return f.template operator()<DType::kQ8_0>();
    case DType::kQ4_K: return f.template operator()<DType::kQ4_K>();
    case DType::kQ5_K: return f.template operator()<DType::kQ5_K>();
    case DType::kQ6_K: return f.template operator()<DType::kQ6_K>();
    default: __builtin_trap();
  }
}

}  // namespace weft::kernels
