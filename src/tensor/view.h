// Plain looks at memory that somebody else owns. Row-major; `stride` counts elements between rows.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace weft {

// x: [rows, cols]. A struct of plain data: kernels take it by value.
struct View {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;

  template <typename T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * stride;
  }
};

}  // namespace weft
