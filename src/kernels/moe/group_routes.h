// Routes (token t, its i-th expert) in the order in which experts work on them: by expert, then by
// token.
//
// For experts [first, first + count), those that are here: begin[e] = routes of experts below first
// + e; token[j] = the token of the j-th route in that order; place[t][i] = j, or -1 where the
// expert is elsewhere. Integers only: the order is a definition, not a matter of rounding, and no
// row's bits depend on it.
#pragma once

#include "kernels/kernel.h"

namespace weft::kernels {

struct GroupRoutesArgs {
  const int32_t* ids = nullptr;  // [rows, top_k], distinct within a row
  int64_t rows = 0;              // T, live rows
  int top_k = 1;
  int32_t first = 0;
  int count = 0;
  int32_t* begin = nullptr;  // [count + 1]
  int32_t* token = nullptr;  // [begin[count]], at most rows * min(top_k, count)
  int32_t* place = nullptr;  // [rows, top_k]
};
std::span<const Kernel<GroupRoutesArgs>* const> GroupRoutesKernels();  // one unit

}  // namespace weft::kernels
