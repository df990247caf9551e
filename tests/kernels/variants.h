// Rows of odd shapes and what is common to the tests of row-wise kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "kernels/float_env.h"
#include "kernels/memory.h"
#include "tensor/view.h"

namespace weft::kernels::testing {

template <typename Args>
std::vector<const Kernel<Args>*> Runnable(std::span<const Kernel<Args>* const> list) {
  std::vector<const Kernel<Args>*> out;
  for (const auto* kernel : list) {
    if (kernel->isa <= DetectIsa()) out.push_back(kernel);
  }
  return out;
}

// [rows, cols] with a gap after each row and one before the first; the gap keeps its filling.
class Matrix {
 public:
  Matrix(DType dtype, int64_t rows, int64_t cols)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        buffer_((rows * (cols + kGap) + kGap) * FactsOf(dtype).block_bytes) {}

  View view() const {
    return {.data = buffer_.data() + kGap * FactsOf(dtype_).block_bytes,
            .rows = rows_,
            .cols = cols_,
            .stride = cols_ + kGap,
            .dtype = dtype_};
  }
  float Get(int64_t r, int64_t c) const {
    return dtype_ == DType::kBF16 ? ToFloat(view().row<Bf16>(r)[c]) : view().row<float>(r)[c];
  }
  void Set(int64_t r, int64_t c, float x) const {
    if (dtype_ == DType::kBF16) {
      view().row<Bf16>(r)[c] = ToBf16(x);
    } else {
      view().row<float>(r)[c] = x;
    }
  }
  const Matrix& Fill(uint32_t seed, float gain = 1) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, gain);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) Set(r, c, normal(random));
    }
    return *this;
  }
  // The whole buffer, gaps included.
  const Buffer& buffer() const { return buffer_; }

 private:
  static constexpr int64_t kGap = 5;
  DType dtype_;
  int64_t rows_, cols_;
  Buffer buffer_;
};

}  // namespace weft::kernels::testing
