// Filling the rectangles of an all-gather or an all-to-all from views; allocates nothing, so a step
// can do it with its live row counts. Each returns how many parts it wrote (<= views * chunks).
// A part that is empty, or lies already where it should go, is left out.
#pragma once

#include <cstdint>
#include <span>

#include "comm/method.h"

namespace weft::comm {

struct RowChunk {
  int64_t begin = 0;
  int64_t end = 0;
};

// Sharded(rows) -> Replicated. Shard i is [rows_i, cols] and becomes the rows after those of shards
// 0 .. i-1. Also Sharded(rows) -> Sharded(cols): hand in views of one's own columns.
int GatherRows(std::span<const View> shards, const View& whole, std::span<Part> parts);
// Sharded(cols) -> Replicated. Shard i is [rows, cols_i].
int GatherCols(std::span<const View> shards, const View& whole, std::span<Part> parts);
// Sharded(cols) -> Sharded(rows). Source i is [T, cols_i]; this member takes the rows of `chunks`,
// one under the other, and the sources' columns side by side: mine is [rows of chunks, sum cols_i].
int ExchangeChunks(std::span<const View> sources, std::span<const RowChunk> chunks,
                   const View& mine, std::span<Part> parts);

}  // namespace weft::comm
