// Regions of memory for weights, KV, states and exchange windows: 2 MiB aligned, huge pages where
// the kernel grants them, bound to a NUMA node, zero until written.
//
// Pages appear when they are first touched; the worker that will read a page should touch it first.
// Thread: an object belongs to one thread; the bytes belong to whoever the plan says.
// Errors: Allocate() tells the region's name, its size and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::device {

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;
inline constexpr int kAnyNode = -1;

class Memory {
 public:
  Memory() = default;
  // node: an index of the operating system, or kAnyNode. A request for a node on a machine that has
  // one, or whose kernel refuses to bind, succeeds without binding and note() says so.
  static Result<Memory> Allocate(int64_t bytes, int node, std::string_view name);

  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }                // as asked for
  int64_t mapped_bytes() const { return mapped_bytes_; }  // whole huge pages
  std::span<std::byte> span() const { return {data_, static_cast<size_t>(bytes_)}; }
  const std::string& name() const { return name_; }
  const std::string& note() const { return note_; }  // "" when everything asked for was granted
  // "weights of rank 0: 512.0 MiB, huge pages, node 0"
  std::string Describe() const;

  // Gives the pages of [begin, end) back; they read as zero afterwards. Rounded inwards.
  void Drop(int64_t begin, int64_t end);

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  int node_ = kAnyNode;
  bool huge_ = false;
  std::string name_;
  std::string note_;
};

// "512.0 MiB", "4.0 KiB", "37 B": for start-up lines and errors.
std::string FormatBytes(int64_t bytes);

}  // namespace weft::device
