// A tensor as it lies in a checkpoint file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace weft::io {

struct Tensor {
  std::string name;  // as the file has it
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;       // row-major, outermost first: [out, in]; empty for a scalar
  const std::byte* data = nullptr;  // inside the file's mapping; need not be aligned
  int64_t bytes = 0;
};

}  // namespace weft::io
