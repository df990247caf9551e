// Size arithmetic on numbers that a file made up: every step says when it left int64.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace weft::io {

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The product of all dimensions; 1 for none. Dimensions behind a zero still count, so that
// [0, 2^62, 4] is refused rather than called empty.
inline std::optional<int64_t> CheckedElements(std::span<const int64_t> shape) {
  int64_t elements = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim == 0) {
      empty = true;
      continue;
    }
    const std::optional<int64_t> product = CheckedMul(elements, dim);
    if (!product) return std::nullopt;
    elements = *product;
  }
  return empty ? 0 : elements;
}

// x rounded up to a multiple of `alignment`, a power of two.
inline std::optional<int64_t> CheckedAlignUp(int64_t x, int64_t alignment) {
  const std::optional<int64_t> sum = CheckedAdd(x, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

}  // namespace weft::io
