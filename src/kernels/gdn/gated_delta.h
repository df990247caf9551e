// The gated delta rule: every value head carries a matrix S [Dk, Dv] from row to row,
//   S <- gamma S;  e = beta (v - S^T k);  S <- S + k e^T;  y = S^T q,
// with one gate gamma = exp(g) <= 1 and one beta per row and head, q and k brought to length 1 and
// q then divided by sqrt(Dk). Everything but y is fp32 and rounded nowhere else.
//
// One row of one value head, in this order:
//   1 k, q    the sum of squares in 16 lanes (lane j takes j, j + 16, ..., acc = fma(x, x, acc)),
//             Tree(0, 16); scale = 1 / sqrt(sum + 1e-6);
//             k_i = k_i * scale;  q_i = (q_i * scale) * (1 / sqrt(Dk)).
//   2 gates   gamma = exp(neg_exp_a * softplus(a + dt_bias)), beta = sigmoid(b) (simd/math.h).
//   3 dot     per column: four chains, chain c takes i = c, c + 4, ... ascending,
//             acc = fma(k_i, S_i, acc) from +0; dot = (c0 + c1) + (c2 + c3).
//   4 e       = beta * (v - gamma * dot).
//   5 S_i     = fma(k_i, e, gamma * S_i).
//   6 y       = round(o), o of q_i and the new S_i by the chains and the tree of 3.
// A logged row of tensor/rows.h does the same to a copy of the state and leaves gamma, k and e in
// the log; a replay is step 5 with what the log holds: the bits of a row that was never in doubt.
// There is no form by chunks, whose sums would depend on where they are cut.
// Source: docs/numerics.md 11; Yang et al. 2024 (gated delta networks).
#pragma once

#include "kernels/gdn/delta_state.h"
#include "kernels/kernel.h"
#include "tensor/rows.h"
#include "tensor/view.h"

namespace weft::kernels {

// Rows of the log, at most: so many fit into a worker's scratch at once.
inline constexpr int kDeltaLogMax = 64;

struct GatedDeltaArgs {
  View q;                                // [T, key_heads * Dk] model dtype
  View k;                                // [T, key_heads * Dk]
  View v;                                // [T, value_heads * Dv]
  View a;                                // [T, >= value_heads]; column 0 belongs to value head 0
  View b;                                // [T, >= value_heads]
  View y;                                // [T, value_heads * Dv]; none of the others
  const float* neg_exp_a = nullptr;      // [value_heads] -exp(A_log)
  const float* dt_bias = nullptr;        // [value_heads]
  const int32_t* key_of_head = nullptr;  // [value_heads] -> key head here
  int key_heads = 0;
  int value_heads = 0;
  int key_dim = 0;    // Dk
  int value_dim = 0;  // Dv
  const Segment* segments = nullptr;
  int segment_count = 0;
  float* state = nullptr;    // the pool of this layer (delta_state.h)
  int64_t state_stride = 0;  // floats between slots
  int log_max = 0;

  DeltaStateLayout layout() const { return {value_heads, key_dim, value_dim, log_max}; }
};

// A unit is a value head of one segment, head-major: a contiguous share of the units is the same
// heads of every segment, however their lengths differ.
std::span<const Kernel<GatedDeltaArgs>* const> GatedDeltaKernels();

}  // namespace weft::kernels
