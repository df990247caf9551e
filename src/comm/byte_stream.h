// Rectangles of memory, one after the other, as one stream of bytes that messages take in pieces.
// The sender's rectangles lie in its window, the reader's in its mirror of that window; both lists
// have the same sizes in the same order, so nothing but the bytes has to travel.
// Thread: one. Allocates only when it holds more rectangles than ever before.
#pragma once

#include <span>
#include <vector>

#include "comm/method.h"

namespace weft::comm {

class ByteStream {
 public:
  void Reserve(int rectangles) { pieces_.reserve(static_cast<size_t>(rectangles)); }
  void Clear() {
    pieces_.clear();
    bytes_ = 0;
  }
  // REQUIRES: the memory outlives the next Clear(); a stream that is unpacked may write it.
  void Add(const Read& read);
  void Add(std::span<const std::byte> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    Add({.rows = 1, .bytes = size, .data = bytes.data(), .stride = size});
  }
  int64_t bytes() const { return bytes_; }

  // Bytes [begin, begin + size) of the stream out of, or into, the rectangles.
  void Pack(int64_t begin, std::span<std::byte> to) const;
  void Unpack(int64_t begin, std::span<const std::byte> from) const;

 private:
  struct Piece {
    std::byte* data;
    int64_t rows, row_bytes, stride;
    int64_t begin;  // in the stream
  };
  // Calls visit(memory, bytes) for the stretches of memory that hold [begin, begin + size).
  template <typename Visit>
  void ForStretches(int64_t begin, int64_t size, const Visit& visit) const;

  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
};

}  // namespace weft::comm
