// The contract of all-to-all: from columns here, rows everywhere to rows here, columns everywhere.
#include "comm/reference.h"

namespace weft::comm {

void AllToAllRef(std::span<const View> sources, std::span<const std::span<const RowChunk>> chunks,
                 std::span<const View> results) {
  for (size_t member = 0; member < results.size(); ++member) {
    const View& to = results[member];
    int64_t to_row = 0;
    for (RowChunk chunk : chunks[member]) {
      for (int64_t row = chunk.begin; row < chunk.end; ++row, ++to_row) {
        int64_t to_col = 0;
        for (const View& from : sources) {
          const int64_t size = FactsOf(from.dtype).block_bytes;  // plain types only
          for (int64_t col = 0; col < from.cols; ++col, ++to_col) {
            for (int64_t b = 0; b < size; ++b) {
              static_cast<std::byte*>(to.data)[(to_row * to.stride + to_col) * size + b] =
                  static_cast<std::byte*>(from.data)[(row * from.stride + col) * size + b];
            }
          }
        }
      }
    }
  }
}

}  // namespace weft::comm
