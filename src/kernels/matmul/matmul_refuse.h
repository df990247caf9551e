// What every matmul kernel asks first: "" or the reason in one line. Not in the kernels' own files,
// so that those built for AVX-512 instantiate nothing of the standard library.
#pragma once

#include <string>

#include "kernels/matmul/matmul.h"

namespace weft::kernels {

// Shapes and dtypes of the contract itself.
std::string RefuseMatmul(const MatmulArgs& args);
// Weights in F32, F16 or BF16.
std::string RefuseUnlessPlain(const MatmulArgs& args);
// BF16 weights and bf16 rows.
std::string RefuseUnlessBf16(const MatmulArgs& args);
// Kernel::avoid of what lives on vdpbf16ps.
std::string AvoidSlowBf16Dots();
// Block formats with int8 activations.
std::string RefuseUnlessInt8(const MatmulArgs& args);
// The same, and rows enough to fill a good part of a tile of 16.
std::string RefuseFewInt8Rows(const MatmulArgs& args);
// Block formats with bf16 activations.
std::string RefuseUnlessBlocksByBf16(const MatmulArgs& args);

}  // namespace weft::kernels
