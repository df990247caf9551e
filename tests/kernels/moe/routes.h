// Random routes, as route leaves them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace weft::kernels::testing {

// [rows, top_k] distinct ids, ascending within a row.
inline std::vector<int32_t> RandomIds(int64_t rows, int experts, int top_k, std::mt19937& random) {
  std::vector<int32_t> all(static_cast<size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < rows; ++t) {
    std::shuffle(all.begin(), all.end(), random);
    ids.insert(ids.end(), all.begin(), all.begin() + top_k);
    std::sort(ids.end() - top_k, ids.end());
  }
  return ids;
}

}  // namespace weft::kernels::testing
