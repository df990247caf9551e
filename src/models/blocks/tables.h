// The leaf tables of a layer, from its tensors alone (docs/numerics.md 4).
#pragma once

#include <cstdint>

#include "graph/builder.h"
#include "tensor/dtype.h"

namespace weft::models {

// Leaves of the row statistic of a norm begin at multiples of this many elements.
inline constexpr int64_t kNormLeafAtom = 32;

// How many inputs of a weight of this format belong together: a block, or a bf16 pair.
int64_t QuantBlockOf(DType weight, bool int8_activations);

// Atoms: whole heads whose width is a multiple of `block`; widths in multiples of lcm(32, block).
int64_t HeadAtom(int64_t head_dim, int64_t block);
int64_t WidthAtom(int64_t block);

}  // namespace weft::models
