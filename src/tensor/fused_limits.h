// Shapes up to which kernels that exchange while they compute are meant. Here, where the pass that
// asks for them and the kernel that has to do them both look: a guard and a limit that differ are a
// wrong answer waiting for its shape.
#pragma once

#include <cstdint>

namespace weft {

// matmul + all-reduce + add + norm: every rank holds all the rows between product and norm.
inline constexpr int64_t kFusedNormRowsMax = 40;
// matmul + reduce-scatter: with fewer rows a rank reads its weights once for each owner of a
// handful of rows.
inline constexpr int64_t kFusedScatterRowsMin = 128;

}  // namespace weft
