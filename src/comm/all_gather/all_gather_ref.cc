// The contract of all-gather: shards one after the other along the dimension that cut them.
#include "comm/reference.h"

namespace weft::comm {

void AllGatherRef(std::span<const View> shards, int dim, std::span<const View> wholes) {
  for (const View& whole : wholes) {
    int64_t row0 = 0;
    int64_t col0 = 0;
    for (const View& shard : shards) {
      const int64_t size = FactsOf(shard.dtype).block_bytes;  // plain types only
      for (int64_t row = 0; row < shard.rows; ++row) {
        for (int64_t col = 0; col < shard.cols; ++col) {
          for (int64_t b = 0; b < size; ++b) {
            static_cast<std::byte*>(
                whole.data)[((row0 + row) * whole.stride + col0 + col) * size + b] =
                static_cast<std::byte*>(shard.data)[(row * shard.stride + col) * size + b];
          }
        }
      }
      (dim == 0 ? row0 : col0) += dim == 0 ? shard.rows : shard.cols;
    }
  }
}

}  // namespace weft::comm
