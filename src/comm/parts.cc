#include "comm/parts.h"

#include "base/check.h"

namespace weft::comm {
namespace {

std::byte* At(const View& view, int64_t row, int64_t col) {
  return static_cast<std::byte*>(view.data) + BytesOf(view.dtype, row * view.stride) +
         BytesOf(view.dtype, col);
}

// Rows [begin, end) of `from` go to (row, col) of `to`.
void Add(int source, const View& from, RowChunk rows, const View& to, int64_t row, int64_t col,
         std::span<Part> parts, int* count) {
  if (rows.begin == rows.end || from.cols == 0) return;
  WEFT_DCHECK(from.dtype == to.dtype && rows.end <= from.rows, "source {}", source);
  const Part part{.from = source,
                  .rows = rows.end - rows.begin,
                  .bytes = BytesOf(from.dtype, from.cols),
                  .data = At(from, rows.begin, 0),
                  .stride = BytesOf(from.dtype, from.stride),
                  .to = At(to, row, col),
                  .to_stride = BytesOf(to.dtype, to.stride)};
  if (part.data == part.to) return;
  WEFT_CHECK(*count < static_cast<int>(parts.size()), "room for {} parts", parts.size());
  parts[(*count)++] = part;
}

}  // namespace

int GatherRows(std::span<const View> shards, const View& whole, std::span<Part> parts) {
  int count = 0;
  int64_t row = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    Add(static_cast<int>(i), shards[i], {0, shards[i].rows}, whole, row, 0, parts, &count);
    row += shards[i].rows;
  }
  return count;
}

int GatherCols(std::span<const View> shards, const View& whole, std::span<Part> parts) {
  const RowChunk all{0, whole.rows};
  return ExchangeChunks(shards, {&all, 1}, whole, parts);
}

int ExchangeChunks(std::span<const View> sources, std::span<const RowChunk> chunks,
                   const View& mine, std::span<Part> parts) {
  int count = 0;
  int64_t col = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    int64_t row = 0;
    for (RowChunk chunk : chunks) {
      Add(static_cast<int>(i), sources[i], chunk, mine, row, col, parts, &count);
      row += chunk.end - chunk.begin;
    }
    col += sources[i].cols;
  }
  return count;
}

}  // namespace weft::comm
