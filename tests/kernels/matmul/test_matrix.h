// Random weights as a file has them, and the same packed by leaves.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "kernels/matmul/pack.h"
#include "kernels/matmul/packed_matrix.h"
#include "kernels/memory.h"
#include "tensor/dtype.h"

namespace weft::kernels::testing {

// A float whose exponent also varies, now and then zero or a denormal.
inline float RandomFloat(std::mt19937& random) {
  const uint32_t kind = random() % 64;
  if (kind == 0) return 0.0f;
  if (kind == 1) return -0.0f;
  if (kind == 2) return 1e-40f;
  const float unit = static_cast<float>(random() % 2000001) / 1000000.0f - 1.0f;
  return std::ldexp(unit, static_cast<int>(random() % 8) - 4);
}

inline void StoreHalf(float x, std::byte* to) {
  const F16 half = ToF16(x);
  std::memcpy(to, &half.bits, 2);
}

// One row of `k` inputs. Block formats: random bits, so every code and sub-scale occurs (Q8_0's
// -128 too), with scales of a sane size.
inline std::vector<std::byte> RandomRow(DType dtype, int64_t k, std::mt19937& random) {
  const DTypeFacts& facts = FactsOf(dtype);
  std::vector<std::byte> row(static_cast<size_t>(BytesOf(dtype, k)));
  if (!IsQuantised(dtype)) {
    for (int64_t i = 0; i < k; ++i) {
      const float x = RandomFloat(random);
      if (dtype == DType::kF32) std::memcpy(row.data() + i * 4, &x, 4);
      if (dtype == DType::kF16) StoreHalf(x, row.data() + i * 2);
      if (dtype == DType::kBF16) {
        const Bf16 value = ToBf16(x);
        std::memcpy(row.data() + i * 2, &value.bits, 2);
      }
    }
    return row;
  }
  for (std::byte& b : row) b = static_cast<std::byte>(random());
  for (size_t at = 0; at < row.size(); at += static_cast<size_t>(facts.block_bytes)) {
    const float d = static_cast<float>(random() % 1000) / 10000.0f - 0.05f;
    StoreHalf(d, row.data() + at + (dtype == DType::kQ6_K ? 208 : 0));
    if (facts.has_min) StoreHalf(d * 3.0f + 0.01f, row.data() + at + 2);
  }
  return row;
}

// W [n, k], panels cut at `n_starts` sections, K-leaves at `k_starts`.
class TestMatrix {
 public:
  TestMatrix(DType dtype, std::vector<int64_t> n_starts, std::span<const int64_t> k_starts,
             std::mt19937& random)
      : TestMatrix(dtype, RandomRows(dtype, n_starts.back(), k_starts.back(), random), n_starts,
                   k_starts, 0, static_cast<int>(k_starts.size()) - 1) {}

  // Of the leaves, those in [leaf_begin, leaf_end) are packed; their inputs count from 0.
  TestMatrix(DType dtype, std::vector<std::vector<std::byte>> rows, std::vector<int64_t> n_starts,
             std::span<const int64_t> k_starts, int leaf_begin, int leaf_end)
      : rows_(std::move(rows)) {
    for (size_t s = 0; s + 1 < n_starts.size(); ++s) {
      for (int64_t n = n_starts[s]; n < n_starts[s + 1]; n += kPanelOutputs) {
        panel_begin_.push_back(static_cast<int32_t>(n));
      }
    }
    matrix_.panels = static_cast<int>(panel_begin_.size());
    panel_begin_.push_back(static_cast<int32_t>(n_starts.back()));
    const int64_t k_first = k_starts[leaf_begin];
    for (int l = leaf_begin; l <= leaf_end; ++l) {
      k_begin_.push_back(static_cast<int32_t>(k_starts[l] - k_first));
    }
    int64_t bytes = 0;
    for (int l = leaf_begin; l < leaf_end; ++l) {
      bytes += matrix_.panels * PanelBytes(dtype, k_starts[l + 1] - k_starts[l]);
    }
    panels_.emplace_back(bytes);
    std::byte* to = panels_.back().data();
    for (int l = leaf_begin; l < leaf_end; ++l) {
      for (int p = 0; p < matrix_.panels; ++p) {
        const std::byte* pointers[kPanelOutputs];
        const int count = panel_begin_[p + 1] - panel_begin_[p];
        for (int i = 0; i < count; ++i) pointers[i] = rows_[panel_begin_[p] + i].data();
        PackPanel(dtype, pointers, count, k_starts[l], k_starts[l + 1] - k_starts[l], to);
        data_.push_back(to);
        to += PanelBytes(dtype, k_starts[l + 1] - k_starts[l]);
      }
    }
    matrix_.dtype = dtype;
    matrix_.n = n_starts.back();
    matrix_.k = k_begin_.back();
    matrix_.k_leaves = leaf_end - leaf_begin;
    matrix_.panel_begin = panel_begin_.data();
    matrix_.k_begin = k_begin_.data();
    matrix_.data = data_.data();
  }
  TestMatrix(const TestMatrix&) = delete;

  const PackedMatrix& packed() const { return matrix_; }
  const std::vector<std::vector<std::byte>>& rows() const { return rows_; }

  static std::vector<std::vector<std::byte>> RandomRows(DType dtype, int64_t n, int64_t k,
                                                        std::mt19937& random) {
    std::vector<std::vector<std::byte>> rows;
    for (int64_t i = 0; i < n; ++i) rows.push_back(RandomRow(dtype, k, random));
    return rows;
  }

 private:
  std::vector<std::vector<std::byte>> rows_;
  std::vector<int32_t> panel_begin_;
  std::vector<int32_t> k_begin_;
  std::vector<const std::byte*> data_;
  std::vector<Buffer> panels_;
  PackedMatrix matrix_;
};

}  // namespace weft::kernels::testing
