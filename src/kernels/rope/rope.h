// Rotary position embedding, NeoX pairs (i, i + rot/2) of each head, in place, rounded once.
//   x1' = x1*cos - x2*sin, x2' = x2*cos + x1*sin   as fma(x1, cos, -(x2*sin)), fma(x2, cos, x1*sin)
// cos and sin come from one table in fp32, computed in double by our own functions and rounded once
// (docs/numerics.md 2). Elements beyond rot pass unchanged. Source: Su et al. 2021; HF llama.
#pragma once

#include <vector>

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct RopeArgs {
  View x;                              // [T, heads * head_dim] float32 or bfloat16, in place
  const int32_t* positions = nullptr;  // [T], each in [0, table_rows)
  const float* cos = nullptr;          // [table_rows, rot/2]
  const float* sin = nullptr;          // [table_rows, rot/2]
  int heads = 0;
  int head_dim = 0;
  int rot = 0;  // rotated elements per head, even
};

std::span<const Kernel<RopeArgs>* const> RopeKernels();

// inv_freq: [rot/2] in double, already scaled. Fills cos and sin [positions, rot/2].
void FillRopeTable(std::span<const double> inv_freq, int64_t positions, float* cos, float* sin);
// theta^(-2i/rot) for i < rot/2, by our own pow.
std::vector<double> RopeInverseFrequencies(double theta, int rot);

}  // namespace weft::kernels
