// y = round(silu(gate) * up), silu(x) = x / (1 + exp(-x)), in fp32 with our own exp.
// gate and up are already rounded to the model dtype (docs/numerics.md 3).
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct SiluMulArgs {
  View gate;  // [T, F] float32 or bfloat16
  View up;    // [T, F]
  View y;     // [T, F]; may be gate itself
};
std::span<const Kernel<SiluMulArgs>* const> SiluMulKernels();

// y = round(a + b)
struct AddArgs {
  View a;  // [T, H]
  View b;  // [T, H]
  View y;  // [T, H]; may be a or b
};
std::span<const Kernel<AddArgs>* const> AddKernels();

}  // namespace weft::kernels
