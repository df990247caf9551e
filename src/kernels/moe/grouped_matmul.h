// The matmuls of all experts that are here as one: rows [begin[e], begin[e + 1]) of x by the matrix
// of expert e.
//
// Each expert's rows are multiplied by `kernel`, a dense matmul, into the same rows of y or
// partials; a row's bits are those of the dense matmul's contract and know nothing of how many rows
// its expert has. The kernel is chosen once, for the rows that experts have on average in the
// fullest step of a bucket: what refuses fewer rows may be slow for them, but takes them.
//
// Units are of cost, not of memory: an expert with m rows has panels * (kRowsOfAStream + m) of
// them, and a slice maps to the kernel's own units. These would divide badly: a kernel may give an
// expert of one row a quarter of the units that it gives one of three, for the same bytes of
// weights. So 8 experts of one row divide evenly among any number of workers, and 256 experts with
// 1 to 4 rows each as evenly as their bytes do.
#pragma once

#include "kernels/matmul/matmul.h"

namespace weft::kernels {

// A panel's bytes from memory take about as long as this many rows' arithmetic on it: 16 rows then
// cost 4 times what one does (measured on Zen 3, 1024 x 2048: 4.2 times with bf16, 4.7 with Q8_0).
inline constexpr int64_t kRowsOfAStream = 4;

struct GroupedMatmulArgs {
  // All routes: x or xq, y or partials, their strides. rows: the most that there can be. w: the
  // dtype, N, K and leaves that every expert has; its data is not looked at. No bias.
  MatmulArgs matmul;
  int64_t rows_max = 0;                   // of one expert: T, as a token goes to an expert once
  int count = 0;                          // experts that are here
  const PackedMatrix* experts = nullptr;  // [count]
  const int32_t* begin = nullptr;         // [count + 1], of group_routes
  const Kernel<MatmulArgs>* kernel = nullptr;
};
std::span<const Kernel<GroupedMatmulArgs>* const> GroupedMatmulKernels();

// The kernel for such experts; `args` as `matmul` above. nullptr: none, or not under that name.
const Kernel<MatmulArgs>* ChooseForExperts(const MatmulArgs& args, Isa isa,
                                           std::string_view force = {});

}  // namespace weft::kernels
