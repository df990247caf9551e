// Weights in the one form that every kernel of every M reads (docs/numerics.md 5).
//
// A weight W [N, K] is cut into leaves: over K where its product is a reduction that ranks may
// split, over N where its outputs may be split. Each leaf is packed by itself, once, in panels of
// 16 outputs; a rank's matrix is a table of pointers to panels, so sections (q | k | v), uneven
// shards and a peer's leaves read in place are nothing special.
//
// One panel of one K-leaf, 16 outputs n0..n0+15 (short panels are zero-padded), K' = its inputs:
//   kF32, kF16   [K'][16]                       k ascending
//   kBF16        [ceil(K'/2)][16][2]            pairs (even, odd); odd K' is zero-padded
//   block formats, per block of 32 (or 256) inputs: scales of the 16 outputs, then the quants in
//   [block/4][16][4] order for 8 bits; the exact layout of each is in pack.h, next to its packer.
// Every panel starts 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace weft::kernels {

inline constexpr int kPanelOutputs = 16;

// Plain data; the arrays live as long as the plan that uses them.
struct PackedMatrix {
  DType dtype = DType::kBF16;  // the format of the weight's bits
  int64_t n = 0;               // outputs of all panels
  int64_t k = 0;               // inputs of all K-leaves here
  int panels = 0;
  int k_leaves = 0;
  const int32_t* panel_begin = nullptr;  // [panels + 1]: panel p gives outputs [p], [p + 1); <= 16
  const int32_t* k_begin = nullptr;      // [k_leaves + 1]: inputs of leaf l, relative to x
  const std::byte* const* data = nullptr;  // [k_leaves][panels]
};

}  // namespace weft::kernels
