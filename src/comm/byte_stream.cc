#include "comm/byte_stream.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weft::comm {

void ByteStream::Add(const Read& read) {
  const int64_t bytes = read.rows * read.bytes;
  if (bytes == 0) return;
  const bool dense = read.rows == 1 || read.stride == read.bytes;
  pieces_.push_back({.data = const_cast<std::byte*>(read.data),
                     .rows = dense ? 1 : read.rows,
                     .row_bytes = dense ? bytes : read.bytes,
                     .stride = dense ? bytes : read.stride,
                     .begin = bytes_});
  bytes_ += bytes;
}

template <typename Visit>
void ByteStream::ForStretches(int64_t begin, int64_t size, const Visit& visit) const {
  WEFT_DCHECK(begin >= 0 && begin + size <= bytes_, "bytes {} + {} of {}", begin, size, bytes_);
  if (size == 0) return;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](int64_t at, const Piece& p) { return at < p.begin; }) -
               1;
  int64_t inside = begin - piece->begin;
  for (; size > 0; ++piece, inside = 0) {
    int64_t row = inside / piece->row_bytes;
    int64_t col = inside % piece->row_bytes;
    for (; row < piece->rows && size > 0; ++row, col = 0) {
      const int64_t length = std::min(size, piece->row_bytes - col);
      visit(piece->data + row * piece->stride + col, length);
      size -= length;
    }
  }
}

void ByteStream::Pack(int64_t begin, std::span<std::byte> to) const {
  std::byte* next = to.data();
  ForStretches(begin, static_cast<int64_t>(to.size()), [&](const std::byte* from, int64_t length) {
    std::memcpy(next, from, length);
    next += length;
  });
}

void ByteStream::Unpack(int64_t begin, std::span<const std::byte> from) const {
  const std::byte* next = from.data();
  ForStretches(begin, static_cast<int64_t>(from.size()), [&](std::byte* to, int64_t length) {
    std::memcpy(to, next, length);
    next += length;
  });
}

}  // namespace weft::comm
