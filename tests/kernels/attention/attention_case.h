// A cache of several requests, and attention over it, whose every number is a function of (request,
// position, head, d): so the same request can be asked in other chunks, pages and batches.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "kernels/attention/attention.h"
#include "kernels/float_env.h"

namespace weft::kernels {

inline uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// About normal, by a sum of four uniforms.
inline float Noise(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const uint64_t bits = Mix(Mix(Mix(Mix(a + 0x9e3779b97f4a7c15ull) + b) + c) + d);
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<float>((bits >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
  }
  return sum * 1.7f;
}

struct Shape {
  DType dtype = DType::kBF16;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 64;
  int page_tokens = 16;
  float gain = 1;  // of q: larger makes softmax sharper
};

// Rows of one request in one step.
struct Rows {
  int request = 0;
  int position = 0;
  int count = 1;
};

inline std::vector<Shape> AttentionShapes() {
  std::vector<Shape> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    out.push_back({.dtype = dtype, .heads = 9, .kv_heads = 3, .head_dim = 64});
    out.push_back({.dtype = dtype, .heads = 4, .kv_heads = 2, .head_dim = 128, .page_tokens = 64});
    out.push_back({.dtype = dtype, .heads = 8, .kv_heads = 2, .head_dim = 80, .page_tokens = 32});
    out.push_back({.dtype = dtype, .heads = 5, .kv_heads = 5, .head_dim = 16});
    out.push_back({.dtype = dtype, .heads = 7, .kv_heads = 1, .head_dim = 6, .page_tokens = 48});
    out.push_back({.dtype = dtype, .heads = 20, .kv_heads = 1, .head_dim = 30});
    out.push_back({.dtype = dtype, .heads = 3, .kv_heads = 1, .head_dim = 256, .gain = 8});
  }
  return out;
}

// Decode rows, verify rows and prefill chunks mixed, at tile and span edges.
inline const std::vector<Rows> kMixedRows{{0, 0, 1},   {1, 62, 5},   {2, 0, 70}, {3, 1022, 4},
                                          {4, 127, 1}, {5, 1087, 1}, {6, 30, 37}};
inline const std::vector<int> kMixedLengths{1, 67, 70, 1026, 128, 1088, 67};

// One query head, so that a count of rows is a count of lines; D: every width of a block of values.
inline std::vector<Shape> LineShapes() {
  std::vector<Shape> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int head_dim : {22, 112, 208}) {
      out.push_back({.dtype = dtype, .heads = 1, .kv_heads = 1, .head_dim = head_dim});
    }
  }
  return out;
}

class AttentionCase {
 public:
  // lengths[r]: keys in request r's cache. Every byte that no key owns is NaN, page 0 is zero.
  AttentionCase(const Shape& shape, std::vector<int> lengths)
      : shape_(shape), lengths_(std::move(lengths)) {
    layout_ = {.base = nullptr,
               .dtype = shape.dtype,
               .kv_heads = shape.kv_heads,
               .head_dim = shape.head_dim,
               .page_tokens = shape.page_tokens};
    int pages = 1;
    for (int length : lengths_) {
      tables_.emplace_back();
      // Two requests' pages alternate and run backwards, so that no page number is its index.
      for (int p = 0; p * shape.page_tokens < length; ++p) tables_.back().push_back(pages++);
    }
    for (auto& table : tables_) {
      for (int32_t& page : table) page = pages - page;
    }
    const int64_t bytes = pages * layout_.page_bytes();
    pool_.assign(bytes, std::byte{0xff});  // NaN in both dtypes
    std::memset(pool_.data(), 0, layout_.page_bytes());
    layout_.base = pool_.data();
    for (size_t r = 0; r < lengths_.size(); ++r) {
      for (int p = 0; p < lengths_[r]; ++p) WriteKey(static_cast<int>(r), p);
    }
    kv_of_head_.resize(shape.heads);
    for (int h = 0; h < shape.heads; ++h) kv_of_head_[h] = h * shape.kv_heads / shape.heads;
  }

  static float Key(int r, int p, int h, int d) { return Noise(r, p, h * 4096 + d, 1); }
  static float Value(int r, int p, int h, int d) { return Noise(r, p, h * 4096 + d, 2); }
  float Query(int r, int p, int h, int d) const {
    return Noise(r, p, h * 4096 + d, 3) * shape_.gain;
  }
  float Round(float x) const { return shape_.dtype == DType::kBF16 ? ToFloat(ToBf16(x)) : x; }

  void Put(std::byte* base, int64_t index, float x) const {
    if (shape_.dtype == DType::kBF16) {
      reinterpret_cast<Bf16*>(base)[index] = ToBf16(x);
    } else {
      reinterpret_cast<float*>(base)[index] = x;
    }
  }
  float Get(const std::byte* base, int64_t index) const {
    return shape_.dtype == DType::kBF16 ? ToFloat(reinterpret_cast<const Bf16*>(base)[index])
                                        : reinterpret_cast<const float*>(base)[index];
  }

  void WriteKey(int r, int p) {
    const int64_t page = tables_[r][p / shape_.page_tokens];
    const int64_t offset = p % shape_.page_tokens;
    for (int h = 0; h < shape_.kv_heads; ++h) {
      for (int d = 0; d < shape_.head_dim; ++d) {
        Put(layout_.keys(page, h), layout_.key_index(offset, d), Key(r, p, h, d));
        Put(layout_.values(page, h), layout_.value_index(offset, d), Value(r, p, h, d));
      }
    }
  }

  int element_bytes() const { return shape_.dtype == DType::kBF16 ? 2 : 4; }
  int64_t row_elements() const { return int64_t{shape_.heads} * shape_.head_dim; }
  const Shape& shape() const { return shape_; }
  KvLayout& layout() { return layout_; }
  std::vector<int32_t>& table(int r) { return tables_[r]; }
  std::vector<int32_t>& kv_of_head() { return kv_of_head_; }

  // The outputs of all rows in order, as stored; checks that nothing beside them was written.
  // cuts: unit boundaries besides 0 and the end, as fractions.
  std::vector<std::byte> Run(const Kernel<AttentionArgs>& kernel, const std::vector<Rows>& step,
                             const std::vector<double>& cuts = {}, bool backwards = false) {
    ScopedFlushDenormals flush;
    int64_t rows = 0;
    for (const Rows& s : step) rows += s.count;
    const int64_t stride = row_elements() + 24;
    std::vector<std::byte> q(rows * stride * element_bytes());
    std::vector<std::byte> y(rows * stride * element_bytes(), std::byte{0xab});
    std::vector<Segment> segments;
    int64_t row = 0;
    for (const Rows& s : step) {
      segments.push_back({.row_begin = static_cast<int32_t>(row),
                          .rows = s.count,
                          .position_begin = s.position,
                          .page_count = static_cast<int32_t>(tables_[s.request].size()),
                          .pages = tables_[s.request].data()});
      for (int i = 0; i < s.count; ++i, ++row) {
        for (int64_t e = 0; e < row_elements(); ++e) {
          Put(q.data(), row * stride + e,
              Query(s.request, s.position + i, static_cast<int>(e / shape_.head_dim),
                    static_cast<int>(e % shape_.head_dim)));
        }
      }
    }
    AttentionArgs a;
    a.q = {.data = q.data(),
           .rows = rows,
           .cols = row_elements(),
           .stride = stride,
           .dtype = shape_.dtype};
    a.y = {.data = y.data(),
           .rows = rows,
           .cols = row_elements(),
           .stride = stride,
           .dtype = shape_.dtype};
    a.kv = layout_;
    a.heads = shape_.heads;
    a.kv_of_head = kv_of_head_.data();
    a.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    a.segments = segments.data();
    a.segment_count = static_cast<int>(segments.size());
    a.rows = rows;
    EXPECT_EQ(kernel.refuse(a), "");

    const int64_t bytes = kernel.scratch_bytes(a);
    std::vector<std::byte> scratch(bytes + 64, std::byte{0xcd});
    const int64_t units = kernel.units(a);
    std::vector<int64_t> ends{0};
    for (double cut : cuts) ends.push_back(static_cast<int64_t>(cut * static_cast<double>(units)));
    ends.push_back(units);
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const size_t at = backwards ? ends.size() - 2 - i : i;
      kernel.run(a, {ends[at], ends[at + 1]}, scratch.data());
    }
    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(scratch[bytes + i], std::byte{0xcd});

    std::vector<std::byte> out;
    for (int64_t t = 0; t < rows; ++t) {
      const std::byte* begin = y.data() + t * stride * element_bytes();
      out.insert(out.end(), begin, begin + row_elements() * element_bytes());
      for (int64_t e = row_elements() * element_bytes(); e < stride * element_bytes(); ++e) {
        EXPECT_EQ(begin[e], std::byte{0xab}) << "row " << t << " wrote beyond its end";
      }
    }
    return out;
  }

 private:
  Shape shape_;
  std::vector<int> lengths_;
  KvLayout layout_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::byte> pool_;
  std::vector<int32_t> kv_of_head_;
};

}  // namespace weft::kernels
