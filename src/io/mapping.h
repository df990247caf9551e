// A file mapped read-only.
// Thread: bytes() from any thread; Advise and Drop too (they change residency, never content).
// Invariant: the bytes stay where they are until the Mapping is destroyed, also when it is moved.
// Errors: kNotFound for a missing file, kInvalid for what is no regular file or is empty, each
// naming the path. A file that is truncated while it is mapped ends the process (SIGBUS): model
// files are replaced by renaming, not rewritten in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace weft::io {

class Mapping {
 public:
  enum class Access { kNormal, kSequential, kWillNeed };

  static Result<Mapping> Open(const std::string& path);

  Mapping(Mapping&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool Contains(const std::byte* data) const {
    return data >= bytes_.data() && data <= bytes_.data() + bytes_.size();
  }

  // Tells the kernel how a range will be read; a hint, so there is nothing to fail.
  // REQUIRES for both: the range lies inside bytes().
  void Advise(const std::byte* data, int64_t size, Access access) const;
  // Gives the range's pages back, outward to whole pages: a neighbour that shares a page reads it
  // again from the page cache.
  void Drop(const std::byte* data, int64_t size) const;

 private:
  Mapping(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  void AdvisePages(const std::byte* data, int64_t size, int advice) const;

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace weft::io
