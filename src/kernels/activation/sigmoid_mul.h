// y = round(x * sigmoid(gate)), sigmoid(g) = 1 / (1 + exp(-g)), in fp32 with our own exp.
// The gate has x's shape, or is one number for a whole row, float32 as router logits are
// (docs/numerics.md 3).
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct SigmoidMulArgs {
  View x;     // [T, F] float32 or bfloat16
  View gate;  // [T, F] in x's dtype, or [T, 1] float32
  View y;     // [T, F]; may be x, or a gate of its shape

  bool one_gate_a_row() const { return gate.cols == 1 && gate.dtype == DType::kF32; }
};
std::span<const Kernel<SigmoidMulArgs>* const> SigmoidMulKernels();

}  // namespace weft::kernels
