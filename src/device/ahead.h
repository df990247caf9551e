// What a worker will read next, brought into its second-level cache while it waits for others: a
// few lines between two looks at what it waits for. Thread: the worker that waits.
#pragma once

#include <cstddef>
#include <span>

namespace weft::device {

class Ahead {
 public:
  using Pieces = std::span<const std::span<const std::byte>>;
  Ahead() = default;
  // The pieces outlive it.
  explicit Ahead(Pieces pieces) : pieces_(pieces) {}

  bool IsOf(Pieces pieces) const { return pieces_.data() == pieces.data(); }
  // Asks for the next lines; false when there are none left. Goes on where the last wait ended.
  bool Fetch() {
    if (at_ == pieces_.size()) return false;
    const std::span<const std::byte> piece = pieces_[at_];
    // As many as a core has under way at least; more would keep it from looking.
    for (int i = 0; i < kLines && offset_ < piece.size(); ++i, offset_ += kLineBytes) {
      __builtin_prefetch(piece.data() + offset_, 0, kSecondLevel);
    }
    if (offset_ >= piece.size()) {
      ++at_;
      offset_ = 0;
    }
    return true;
  }

 private:
  static constexpr size_t kLineBytes = 64;
  static constexpr int kLines = 4;
  static constexpr int kSecondLevel = 2;  // of __builtin_prefetch
  Pieces pieces_;
  size_t at_ = 0, offset_ = 0;
};

}  // namespace weft::device
