// GGUF's tensor type numbers and what they are to us.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "tensor/dtype.h"

namespace weft::io {

// Errors: kUnsupported, with the type's name and number, for a type that we have no kernels for,
// that GGUF gave up, or that nobody knows.
Result<DType> DTypeOfGguf(uint32_t type);

// The inverse, for those who write files. REQUIRES: GGUF has the type.
uint32_t GgufTypeOf(DType dtype);

}  // namespace weft::io
