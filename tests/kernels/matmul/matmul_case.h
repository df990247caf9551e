// A matmul with everything that it points to, and its output with guards around each row.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/float_env.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/test_matrix.h"
#include "tensor/leaf_table.h"

namespace weft::kernels::testing {

struct MatmulShape {
  DType weight = DType::kBF16;
  bool int8 = false;
  DType x = DType::kBF16;
  int64_t m = 1;
  std::vector<int64_t> n_starts{0, 16};
  LeafTable leaves = LeafTable::Whole(64);
  LeafRange range{0, 1};  // the leaves that are here
  bool finish = true;
  bool bias = false;
  DType y = DType::kF32;
  uint32_t seed = 1;
};

class MatmulCase {
 public:
  static constexpr int64_t kGuard = 24;  // elements after each row of the output

  explicit MatmulCase(const MatmulShape& shape)
      : shape_(shape),
        random_(shape.seed),
        matrix_(shape.weight,
                TestMatrix::RandomRows(shape.weight, shape.n_starts.back(), shape.leaves.size(),
                                       random_),
                shape.n_starts, shape.leaves.starts(), shape.range.begin, shape.range.end),
        merges_(TreeMerges(shape.leaves.count(), shape.range)),
        x_(shape.m * (k() + 5) * 4),
        xq_(QuantisedRows::Bytes(shape.m, k()) + 64),
        bias_(static_cast<size_t>(n())) {
    for (float& b : bias_) b = RandomFloat(random_);
    args_.x = {x_.data(), shape.m, k(), k() + 5, shape.x};
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t i = 0; i < k(); ++i) {
        const float x = RandomFloat(random_);
        if (shape.x == DType::kF32) args_.x.row<float>(row)[i] = x;
        if (shape.x == DType::kBF16) args_.x.row<Bf16>(row)[i] = ToBf16(x);
      }
    }
    if (shape.int8) FillInt8();
    args_.int8_activations = shape.int8;
    args_.rows = shape.m;
    args_.w = matrix_.packed();
    args_.merges = merges_.data();
    args_.roots = static_cast<int>(MaximalSubtrees(shape.leaves.count(), shape.range).size());
    args_.finish = shape.finish;
    if (shape.bias) args_.bias = bias_.data();
  }

  int64_t n() const { return shape_.n_starts.back(); }
  int64_t k() const {
    return shape_.leaves.start(shape_.range.end) - shape_.leaves.start(shape_.range.begin);
  }
  MatmulArgs& args() { return args_; }
  const TestMatrix& matrix() const { return matrix_; }
  const MatmulShape& shape() const { return shape_; }
  std::mt19937& random() { return random_; }

  // Bytes of the whole output, guards included.
  int64_t OutputBytes() const {
    if (!args_.finish) return args_.roots * (args_.rows * n() + kGuard) * 4;
    return args_.rows * (n() + kGuard) * (shape_.y == DType::kF32 ? 4 : 2);
  }
  MatmulArgs Into(const Buffer& out) const {
    MatmulArgs args = args_;
    args.y = {out.data(), args.rows, n(), n() + kGuard, shape_.y};
    args.partials = out.as<float>();
    args.partials_stride = args.rows * n() + kGuard;
    return args;
  }
  Buffer Run(const Kernel<MatmulArgs>& kernel, const std::vector<Slice>& slices = {}) const {
    const ScopedFlushDenormals environment;
    Buffer out(OutputBytes());
    const MatmulArgs args = Into(out);
    if (slices.empty()) {
      RunWhole(kernel, args);
    } else {
      RunSlices(kernel, args, slices);
    }
    return out;
  }

  std::string Describe() const {
    std::string text(NameOf(shape_.weight));
    text += shape_.int8 ? " by int8" : shape_.x == DType::kF32 ? " by float32" : " by bfloat16";
    text += ", M " + std::to_string(args_.rows) + " N " + std::to_string(n()) + " K " +
            std::to_string(k()) + ", leaves [" + std::to_string(shape_.range.begin) + ", " +
            std::to_string(shape_.range.end) + ") of " + std::to_string(shape_.leaves.count()) +
            (shape_.finish ? ", finish to " : ", partials, ") + std::string(NameOf(shape_.y)) +
            (shape_.bias ? ", bias" : "") + ", seed " + std::to_string(shape_.seed);
    return text;
  }

 private:
  // Rows as quantise_rows might make them, extremes included: whole blocks of 127 and of -127.
  void FillInt8() {
    args_.xq = QuantisedRows::In(xq_.data(), shape_.m, shape_.m, k());
    const int64_t blocks = k() / kQuantBlock;
    for (int64_t i = 0; i < shape_.m * blocks; ++i) {
      const uint32_t kind = random_() % 8;
      int32_t sum = 0;
      for (int j = 0; j < kQuantBlock; ++j) {
        int q = static_cast<int>(random_() % 255) - 127;
        if (kind == 0) q = 127;
        if (kind == 1) q = -127;
        args_.xq.q[i * kQuantBlock + j] = static_cast<int8_t>(q);
        sum += q;
      }
      args_.xq.sum[i] = sum;
      args_.xq.d[i] = std::abs(RandomFloat(random_)) / 64.0f;
    }
  }

  MatmulShape shape_;
  std::mt19937 random_;
  TestMatrix matrix_;
  std::vector<uint8_t> merges_;
  Buffer x_;
  Buffer xq_;
  std::vector<float> bias_;
  MatmulArgs args_;
};

inline constexpr DType kPlainTypes[] = {DType::kBF16, DType::kF16, DType::kF32};
inline constexpr DType kBlockTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                                        DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// Leaf tables with an uneven last leaf; K is odd where the format allows it.
inline LeafTable TestLeaves(DType weight, int leaves) {
  const int64_t block = FactsOf(weight).block_elements;
  if (block == 1) return LeafTable::Make(leaves == 1 ? 301 : 37 * leaves + 11, 38, leaves);
  // Atoms such that floor(iA/L) makes widths of one and of two blocks.
  return LeafTable::Make(block * (leaves == 1 ? (block == 32 ? 11 : 2) : leaves + leaves / 2),
                         block, leaves);
}

// All rows x outputs; leaves, range, bias and dtypes change with the case so that all meet.
template <typename F>
void ForEachShape(DType weight, bool int8, const F& f) {
  constexpr int64_t kRows[] = {1, 2, 3, 5, 7, 8, 13, 40};
  const std::vector<int64_t> outputs[] = {{0, 1},  {0, 15},          {0, 16},
                                          {0, 17}, {0, 33, 70, 100}, {0, 259}};
  constexpr int kLeaves[] = {1, 2, 5, 16, 7};
  uint32_t seed = static_cast<uint32_t>(weight) * 1000 + int8;
  for (const int64_t m : kRows) {
    for (const std::vector<int64_t>& n_starts : outputs) {
      ++seed;
      MatmulShape shape{.weight = weight, .int8 = int8, .m = m, .n_starts = n_starts};
      shape.leaves = TestLeaves(weight, kLeaves[seed % 5]);
      shape.range = {0, shape.leaves.count()};
      shape.x = seed % 3 == 0 ? DType::kF32 : DType::kBF16;
      shape.y = seed % 2 == 0 ? DType::kF32 : DType::kBF16;
      shape.bias = seed % 4 < 2;
      shape.seed = seed;
      if (seed % 7 == 0 && shape.leaves.count() > 2) {
        shape.range = {1, shape.leaves.count() - 1};
        shape.finish = false;
      } else if (seed % 7 == 1) {
        shape.finish = false;
      }
      f(shape);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace weft::kernels::testing
