// The native half of avx512_test.cc: built for the instruction set, so it holds a table and no
// more.
#include "kernels/simd/avx512_operations.h"

namespace weft::kernels::testing {

const std::span<const Operation> kNativeOperations = kOperations;

}  // namespace weft::kernels::testing
