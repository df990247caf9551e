// Bump allocation inside memory that somebody else owns: scratch that lives for one step.
// Thread: one owner. Errors: nullptr when the region is full (nothing changed); it never grows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace weft {

class Arena {
 public:
  Arena() = default;
  explicit Arena(std::span<std::byte> region) : region_(region) {}

  // REQUIRES: alignment is a power of two.
  void* Allocate(size_t bytes, size_t alignment = 64) {
    WEFT_DCHECK(std::has_single_bit(alignment), "alignment {}", alignment);
    const auto base = reinterpret_cast<uintptr_t>(region_.data());
    const size_t begin = ((base + used_ + alignment - 1) & ~(alignment - 1)) - base;
    if (begin > region_.size() || bytes > region_.size() - begin) return nullptr;
    used_ = begin + bytes;
    used_max_ = std::max(used_max_, used_);
    return region_.data() + begin;
  }
  template <typename T>
  T* AllocateArray(size_t count, size_t alignment = 64) {
    if (count > region_.size() / sizeof(T)) return nullptr;
    return static_cast<T*>(Allocate(count * sizeof(T), std::max(alignment, alignof(T))));
  }

  void Reset() { used_ = 0; }
  size_t used() const { return used_; }
  size_t used_max() const { return used_max_; }  // what the region would have to hold
  size_t capacity() const { return region_.size(); }

 private:
  std::span<std::byte> region_;
  size_t used_ = 0;
  size_t used_max_ = 0;
};

}  // namespace weft
