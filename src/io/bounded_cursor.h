// The only way to walk through a binary blob that somebody else wrote.
// Thread: one.  Invariant: never reads past the bytes it was given; a failed read moves nothing.
// Errors: kInvalid that names what was being read, where, and how much was left.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace weft::io {

class BoundedCursor {
 public:
  explicit BoundedCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // A little-endian number; needs no alignment.
  template <typename T>
  Status Read(T* out, std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return TooShort(sizeof(T), what);
    std::memcpy(out, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return Status::Ok();
  }

  // The next `size` bytes, in place.
  Status Take(uint64_t size, std::span<const std::byte>* out, std::string_view what) {
    if (remaining() < size) return TooShort(size, what);
    *out = bytes_.subspan(position_, static_cast<size_t>(size));
    position_ += static_cast<size_t>(size);
    return Status::Ok();
  }

  // A u64 length and as many bytes, looked at in place; at most `size_max`.
  Status ReadString(uint64_t size_max, std::string_view* out, std::string_view what) {
    const size_t start = position_;
    uint64_t size = 0;
    WEFT_RETURN_IF_ERROR(Read(&size, what));
    std::span<const std::byte> text;
    Status status;
    if (size > size_max) {
      status = Status::Invalid("{} of {} bytes at byte {} exceeds the limit of {}", what, size,
                               start, size_max);
    } else {
      status = Take(size, &text, what);
    }
    if (!status.ok()) {
      position_ = start;
      return status;
    }
    *out = {reinterpret_cast<const char*>(text.data()), text.size()};
    return Status::Ok();
  }

  // Whether `count` things of at least `bytes_each` can still follow: asked before room is made
  // for them.
  Status CheckCount(uint64_t count, uint64_t bytes_each, std::string_view what) const {
    if (count <= remaining() / bytes_each) return Status::Ok();
    return Status::Invalid("{} {} cannot fit into the {} bytes that remain at byte {}", count, what,
                           remaining(), position_);
  }

 private:
  Status TooShort(uint64_t size, std::string_view what) const {
    return Status::Invalid("the file ends inside {}: {} bytes are needed at byte {}, {} remain",
                           what, size, position_, remaining());
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace weft::io
