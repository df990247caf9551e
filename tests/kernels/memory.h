// Aligned buffers with known contents, for tests that compare memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <vector>

#include "kernels/kernel.h"

namespace weft::kernels::testing {

// 64-byte aligned, filled with 0xa5: whatever a kernel should not touch shows.
class Buffer {
 public:
  explicit Buffer(int64_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64))) {
    std::memset(data_.get(), 0xa5, static_cast<size_t>((bytes + 64) / 64 * 64));
  }
  std::byte* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  int64_t bytes() const { return bytes_; }
  // For a failed comparison: gtest prints this and not the bytes of the object.
  friend void PrintTo(const Buffer& buffer, std::ostream* os) {
    *os << buffer.bytes_ << " bytes";
    char text[8];
    for (int64_t i = 0; i < buffer.bytes_ && i < 64; ++i) {
      std::snprintf(text, sizeof(text), "%s%02x", i % 4 == 0 ? " " : "",
                    std::to_integer<unsigned>(buffer.data()[i]));
      *os << text;
    }
  }
  friend bool operator==(const Buffer& a, const Buffer& b) {
    return a.bytes_ == b.bytes_ &&
           std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes_)) == 0;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  int64_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

// Cuts [0, units) at random, in random order: any partition must give the same bits.
inline std::vector<Slice> RandomSlices(int64_t units, std::mt19937& random) {
  std::vector<Slice> slices;
  for (int64_t begin = 0; begin < units;) {
    const int64_t size = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(units));
    const int64_t end = begin + size < units ? begin + size : units;
    slices.push_back({begin, end});
    begin = end;
  }
  for (size_t i = slices.size(); i > 1; --i) std::swap(slices[i - 1], slices[random() % i]);
  return slices;
}

template <typename Args>
void RunSlices(const Kernel<Args>& kernel, const Args& args, const std::vector<Slice>& slices) {
  const Buffer scratch(kernel.scratch_bytes != nullptr ? kernel.scratch_bytes(args) : 0);
  for (const Slice slice : slices) {
    std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes()));
    kernel.run(args, slice, scratch.data());
  }
}

template <typename Args>
void RunWhole(const Kernel<Args>& kernel, const Args& args) {
  RunSlices(kernel, args, {{0, kernel.units(args)}});
}

}  // namespace weft::kernels::testing
