#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/attention/attention_case.h"
#include "kernels/simd/math.h"

namespace weft::kernels {
namespace {

const Kernel<AttentionArgs>& AttentionContract() { return *AttentionKernels().back(); }

std::vector<const Kernel<AttentionArgs>*> Runnable() {
  std::vector<const Kernel<AttentionArgs>*> out;
  for (const auto* kernel : AttentionKernels()) {
    if (kernel->isa <= DetectIsa()) out.push_back(kernel);
  }
  return out;
}

TEST(Attention, EveryVariantEqualsTheContract) {
  for (const Shape& shape : AttentionShapes()) {
    AttentionCase test(shape, kMixedLengths);
    const auto expected = test.Run(AttentionContract(), kMixedRows);
    for (const auto* kernel : Runnable()) {
      EXPECT_EQ(test.Run(*kernel, kMixedRows), expected)
          << kernel->name << " " << NameOf(shape.dtype) << " D " << shape.head_dim << " heads "
          << shape.heads << "/" << shape.kv_heads;
    }
  }
}

TEST(Attention, EveryCountOfLinesEqualsTheContract) {
  for (const Shape& shape : LineShapes()) {
    AttentionCase test(shape, {130});
    for (int rows = 1; rows <= 13; ++rows) {
      const auto expected = test.Run(AttentionContract(), {{0, 100, rows}});
      for (const auto* kernel : Runnable()) {
        EXPECT_EQ(test.Run(*kernel, {{0, 100, rows}}), expected)
            << kernel->name << " " << NameOf(shape.dtype) << " D " << shape.head_dim << " rows "
            << rows;
      }
    }
  }
}

TEST(Attention, DeepRowsEqualTheContract) {
  AttentionCase test({.heads = 4, .kv_heads = 1, .head_dim = 64, .gain = 2}, {32768});
  for (const std::vector<Rows>& step : std::vector<std::vector<Rows>>{
           {{0, 4095, 1}}, {{0, 16384, 1}}, {{0, 32767, 1}}, {{0, 32700, 5}}, {{0, 9000, 20}}}) {
    const auto expected = test.Run(AttentionContract(), step);
    for (const auto* kernel : Runnable()) {
      EXPECT_EQ(test.Run(*kernel, step), expected) << kernel->name << " at " << step[0].position;
    }
  }
}

TEST(Attention, AnyPartitionOfUnitsGivesTheSameBits) {
  AttentionCase test({.heads = 9, .kv_heads = 3, .head_dim = 64}, kMixedLengths);
  for (const auto* kernel : Runnable()) {
    const auto whole = test.Run(*kernel, kMixedRows);
    EXPECT_EQ(test.Run(*kernel, kMixedRows, {0.5}), whole);
    EXPECT_EQ(test.Run(*kernel, kMixedRows, {0.1, 0.2, 0.7}, true), whole);
    std::vector<double> fine;
    for (int i = 1; i < 100; ++i) fine.push_back(i / 100.0);
    EXPECT_EQ(test.Run(*kernel, kMixedRows, fine, true), whole) << kernel->name;
  }
}

TEST(Attention, ChunksOfARequestGiveTheBitsOfOneShot) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    AttentionCase test({.dtype = dtype, .heads = 6, .kv_heads = 2, .head_dim = 32}, {200});
    for (const auto* kernel : Runnable()) {
      const auto whole = test.Run(*kernel, {{0, 0, 200}});
      for (int chunk : {1, 3, 16, 64, 150}) {
        std::vector<std::byte> joined;
        for (int p = 0; p < 200; p += chunk) {
          const auto part = test.Run(*kernel, {{0, p, std::min(chunk, 200 - p)}});
          joined.insert(joined.end(), part.begin(), part.end());
        }
        EXPECT_EQ(joined, whole) << kernel->name << " chunk " << chunk;
      }
    }
  }
}

TEST(Attention, ARowDoesNotDependOnItsNeighbours) {
  AttentionCase test({.heads = 4, .kv_heads = 2, .head_dim = 64}, kMixedLengths);
  for (const auto* kernel : Runnable()) {
    const auto together = test.Run(*kernel, kMixedRows);
    std::vector<std::byte> alone;
    for (const Rows& rows : kMixedRows) {
      const auto part = test.Run(*kernel, {rows});
      alone.insert(alone.end(), part.begin(), part.end());
    }
    EXPECT_EQ(alone, together) << kernel->name;
  }
}

TEST(Attention, PageSizeIsInvisible) {
  for (const auto* kernel : Runnable()) {
    std::vector<std::byte> first;
    for (int page_tokens : {16, 32, 48, 64, 128}) {
      AttentionCase test({.heads = 4, .kv_heads = 2, .head_dim = 64, .page_tokens = page_tokens},
                         kMixedLengths);
      const auto bits = test.Run(*kernel, kMixedRows);
      if (first.empty()) first = bits;
      EXPECT_EQ(bits, first) << kernel->name << " page " << page_tokens;
    }
  }
}

// The pool of AttentionCase is NaN wherever no key is; so no output may be NaN. And what stale
// memory holds must not matter in any bit, the sign of zero included.
TEST(Attention, StaleMemoryNeverLeaks) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    AttentionCase clean({.dtype = dtype, .heads = 4, .kv_heads = 2, .head_dim = 64}, kMixedLengths);
    for (const auto* kernel : Runnable()) {
      const auto bits = clean.Run(*kernel, kMixedRows);
      for (int64_t i = 0; i < std::ssize(bits) / clean.element_bytes(); ++i) {
        ASSERT_TRUE(std::isfinite(clean.Get(bits.data(), i))) << kernel->name << " element " << i;
      }
      // Every key beyond position 69 of request 2 and its like becomes infinite or negative.
      for (float stale : {-3.0f, std::numeric_limits<float>::infinity()}) {
        AttentionCase dirty({.dtype = dtype, .heads = 4, .kv_heads = 2, .head_dim = 64},
                            kMixedLengths);
        for (size_t r = 0; r < kMixedLengths.size(); ++r) {
          KvLayout& layout = dirty.layout();
          for (int p = kMixedLengths[r]; p % 16 != 0; ++p) {
            for (int h = 0; h < 2; ++h) {
              for (int d = 0; d < 64; ++d) {
                dirty.Put(layout.keys(dirty.table(r)[p / 16], h), layout.key_index(p % 16, d),
                          stale);
                dirty.Put(layout.values(dirty.table(r)[p / 16], h), layout.value_index(p % 16, d),
                          stale);
              }
            }
          }
        }
        EXPECT_EQ(dirty.Run(*kernel, kMixedRows), bits) << kernel->name << " stale " << stale;
      }
    }
  }
}

// A sum that a rescale has flushed to -0 stays that over values of -0, until the part of the tile
// that nobody sees adds +0. Keys 64 and 65 have a score of about 80, those before them 0.
TEST(Attention, WhatIsNotSeenOfATileAddsPlusZero) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    AttentionCase test({.dtype = dtype, .heads = 1, .kv_heads = 1, .head_dim = 32}, {66});
    double square = 0;
    for (int d = 0; d < 32; ++d) {
      square += std::pow(double{test.Round(test.Query(0, 65, 0, d))}, 2) / std::sqrt(32.0);
    }
    for (int p = 0; p < 66; ++p) {
      for (int d = 0; d < 32; ++d) {
        const auto key = static_cast<float>(80 / square * test.Query(0, 65, 0, d));
        test.Put(test.layout().keys(test.table(0)[p / 16], 0), test.layout().key_index(p % 16, d),
                 p < 64 ? 0.0f : key);
        test.Put(test.layout().values(test.table(0)[p / 16], 0),
                 test.layout().value_index(p % 16, d), p < 64 ? -1e-30f : -0.0f);
      }
    }
    const auto expected = test.Run(AttentionContract(), {{0, 65, 1}});
    for (int d = 0; d < 32; ++d) {
      EXPECT_EQ(test.Get(expected.data(), d), 0.0f);
      EXPECT_FALSE(std::signbit(test.Get(expected.data(), d)));
    }
    for (const auto* kernel : Runnable()) {
      EXPECT_EQ(test.Run(*kernel, {{0, 65, 1}}), expected) << kernel->name << " " << NameOf(dtype);
    }
  }
}

// A NaN that a row may see is an error that must be seen: it fills the row's head, as one pattern.
TEST(Attention, ANaNAmongVisibleKeysComesOutAsOneNaN) {
  AttentionCase test({.heads = 4, .kv_heads = 2, .head_dim = 64}, {100});
  test.Put(test.layout().keys(test.table(0)[2], 1), test.layout().key_index(3, 5), NAN);
  for (const auto* kernel : Runnable()) {
    const auto bits = test.Run(*kernel, {{0, 30, 70}});
    EXPECT_EQ(bits, test.Run(AttentionContract(), {{0, 30, 70}})) << kernel->name;
    for (int t = 0; t < 70; ++t) {
      for (int h = 0; h < 4; ++h) {
        const bool sees = 30 + t >= 35 && h >= 2;
        EXPECT_EQ(std::isnan(test.Get(bits.data(), (t * 4 + h) * 64)), sees) << t << " " << h;
      }
    }
  }
}

// Against softmax in double. P is rounded to the model dtype (relative u), and so is y; the rest is
// fp32. |error of y_d| <= (2 u + n e) sum_i p_i |v_i,d| + u |y_d| + score error, where a score's
// own error (D e |q||k| scale) changes each p relatively by as much.
TEST(Attention, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const Shape shape{.dtype = dtype, .heads = 2, .kv_heads = 1, .head_dim = 64, .gain = 2};
    AttentionCase test(shape, {1200});
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    const double e = 0x1p-24;
    for (int position : {0, 5, 63, 64, 700, 1023, 1024, 1199}) {
      const auto bits = test.Run(AttentionContract(), {{0, position, 1}});
      for (int h = 0; h < 2; ++h) {
        std::vector<double> s(position + 1);
        double top = -1e300;
        double score_error = 0;
        for (int i = 0; i <= position; ++i) {
          double dot = 0, magnitude = 0;
          for (int d = 0; d < 64; ++d) {
            const double term = double{test.Round(test.Query(0, position, h, d))} *
                                test.Round(AttentionCase::Key(0, i, 0, d));
            dot += term;
            magnitude += std::abs(term);
          }
          s[i] = dot * double{1.0f / 8.0f};
          score_error = std::max(score_error, (64 + 2) * e * magnitude / 8);
          top = std::max(top, s[i]);
        }
        double total = 0;
        for (double& x : s) total += x = std::exp(x - top);
        for (int d = 0; d < 64; ++d) {
          double y = 0, magnitude = 0;
          for (int i = 0; i <= position; ++i) {
            const double v = test.Round(AttentionCase::Value(0, i, 0, d));
            y += s[i] / total * v;
            magnitude += s[i] / total * std::abs(v);
          }
          const double got = test.Get(bits.data(), h * 64 + d);
          // 40: exp's ulp, and one rescale per tile and span.
          const double bound =
              (2 * u + (position + 1 + 40) * e + 4 * score_error) * magnitude + u * std::abs(y);
          ASSERT_LE(std::abs(got - y), bound) << "position " << position << " d " << d;
        }
      }
    }
  }
}

TEST(Attention, RefusesWithTheNumber) {
  AttentionArgs a;
  a.kv.dtype = a.q.dtype = a.y.dtype = DType::kBF16;
  a.kv.head_dim = 63;
  a.kv.page_tokens = 16;
  EXPECT_NE(AttentionContract().refuse(a).find("63"), std::string::npos);
  a.kv.head_dim = 64;
  a.kv.page_tokens = 24;
  EXPECT_NE(AttentionContract().refuse(a).find("24"), std::string::npos);
}

// The contract's order once more, from its description alone, with its two sizes as parameters: as
// written it must give the contract's bits, and broken (the negative control) it must not.
std::vector<float> InOrder(const AttentionCase& test, int position, int tail_tile, int span_keys) {
  const int head_dim = test.shape().head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const auto q = [&](int d) { return test.Round(test.Query(0, position, 0, d)); };
  const auto k = [&](int i, int d) { return test.Round(AttentionCase::Key(0, i, 0, d)); };
  const auto v = [&](int i, int d) {
    return i > position ? 0.0f : test.Round(AttentionCase::Value(0, i, 0, d));
  };
  std::vector<float> merged(head_dim), o(head_dim);
  float merged_m = 0, merged_l = 0;
  for (int span = 0; span <= position; span += span_keys) {
    float m = -INFINITY;
    float l[16] = {};
    std::fill(o.begin(), o.end(), 0.0f);
    for (int tile = span, size = 0; tile < span + span_keys && tile <= position; tile += size) {
      size = tile + 64 > position + 1 ? tail_tile : 64;
      std::vector<float> s(size, -INFINITY);
      float n = m;
      for (int i = 0; i < size && tile + i <= position; ++i) {
        float acc = 0;
        for (int d = 0; d < head_dim; d += 2) {
          acc = std::fma(q(d + 1), k(tile + i, d + 1), acc);
          acc = std::fma(q(d), k(tile + i, d), acc);
        }
        s[i] = acc * scale;
        n = std::max(n, s[i]);
      }
      const float alpha = Exp(m - n);
      for (float& lane : l) lane *= alpha;
      for (float& x : o) x *= alpha;
      for (int i = 0; i < size; i += 2) {
        for (int j : {i, i + 1}) l[j % 16] += s[j] = test.Round(Exp(s[j] - n));
        for (int d = 0; d < head_dim; ++d) {
          o[d] = std::fma(s[i], v(tile + i, d), std::fma(s[i + 1], v(tile + i + 1, d), o[d]));
        }
      }
      m = n;
    }
    for (int width = 1; width < 16; width *= 2) {
      for (int i = 0; i < 16; i += 2 * width) l[i] += l[i + width];
    }
    const float n = span == 0 ? m : std::max(merged_m, m);
    const float old_weight = span == 0 ? 0.0f : Exp(merged_m - n);
    const float weight = Exp(m - n);
    merged_l = std::fma(l[0], weight, merged_l * old_weight);
    for (int d = 0; d < head_dim; ++d) merged[d] = std::fma(o[d], weight, merged[d] * old_weight);
    merged_m = n;
  }
  for (float& x : merged) x = test.Round(x / merged_l);
  return merged;
}

TEST(Attention, TheDescribedOrderIsTheContractAndABrokenOneIsSeen) {
  ScopedFlushDenormals flush;
  AttentionCase test({.heads = 1, .kv_heads = 1, .head_dim = 64, .gain = 2}, {2100});
  const auto differences = [&](int tail_tile, int span) {
    int out = 0;
    for (int position : {40, 61, 130, 1000, 1070, 2090}) {
      const auto expected = test.Run(AttentionContract(), {{0, position, 1}});
      const auto got = InOrder(test, position, tail_tile, span);
      for (int d = 0; d < 64; ++d) out += test.Get(expected.data(), d) != got[d] ? 1 : 0;
    }
    return out;
  };
  EXPECT_EQ(differences(64, 1024), 0);
  EXPECT_GT(differences(16, 1024), 0);  // a shorter tail tile
  EXPECT_GT(differences(64, 512), 0);   // other spans
}

}  // namespace
}  // namespace weft::kernels
