// The contract itself, against double, with derived bounds.
//
// A sum of T terms t_i by FMAs, leaves and tree has an error of at most (T + depth) u sum|t_i| to
// first order, u = 2^-24; each term may carry r roundings of its own before the FMA. The bounds
// below count them and double the result for the second order.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/matmul/matmul_case.h"
#include "tensor/quant_format.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::kBlockTypes;
using testing::kPlainTypes;
using testing::MatmulCase;
using testing::MatmulShape;
using testing::TestLeaves;

constexpr double kUnit = 0x1p-24;

struct Sum {
  double value = 0.0;
  double magnitude = 0.0;
  double terms = 0.0;
  void Add(double term) {
    value += term;
    magnitude += std::abs(term);
    terms += 1.0;
  }
};

double XAt(const MatmulArgs& a, int64_t row, int64_t k) {
  const double x =
      a.x.dtype == DType::kF32 ? a.x.row<float>(row)[k] : ToFloat(a.x.row<Bf16>(row)[k]);
  return std::abs(x) < 0x1p-126 ? 0.0 : x;  // DAZ
}

// From the file's bits, not from the panels. `weights` and x decide, whatever the layout.
Sum Exact(MatmulCase& c, int64_t row, int64_t n) {
  const MatmulArgs& a = c.args();
  const DType type = c.shape().weight;
  const DTypeFacts& facts = FactsOf(type);
  const int64_t k = c.k();
  Sum sum;
  if (!c.shape().int8) {
    std::vector<float> w(static_cast<size_t>(k));
    DequantiseRow(type, c.matrix().rows()[n].data(), k, w.data());
    for (int64_t i = 0; i < k; ++i) {
      double weight = w[i];
      double x = XAt(a, row, i);
      if (IsQuantised(type)) {
        weight = ToFloat(ToBf16(w[i]));
        x = ToFloat(ToBf16(static_cast<float>(x)));
      }
      if (std::abs(weight) < 0x1p-126) weight = 0.0;
      sum.Add(weight * x);
    }
    return sum;
  }
  std::vector<int8_t> q(static_cast<size_t>(k));
  std::vector<float> scales(static_cast<size_t>(k / facts.scale_elements));
  std::vector<float> mins(scales.size());
  DecodeBlocks(type, c.matrix().rows()[n].data(), k, q.data(), scales.data(), mins.data());
  for (size_t s = 0; s < scales.size(); ++s) {
    double dot = 0.0;
    double total = 0.0;
    for (int i = 0; i < facts.scale_elements; ++i) {
      const int64_t at = static_cast<int64_t>(s) * facts.scale_elements + i;
      dot += double{static_cast<float>(q[at])} * a.xq.q[row * k + at];
      total += a.xq.q[row * k + at];
    }
    const double da = a.xq.d[row * (k / kQuantBlock) +
                             static_cast<int64_t>(s) * facts.scale_elements / kQuantBlock];
    sum.Add(dot * scales[s] * (da < 0x1p-126 ? 0.0 : da));
    if (facts.has_min) sum.Add(total * mins[s] * (da < 0x1p-126 ? 0.0 : da));
  }
  return sum;
}

void ExpectNearDouble(const MatmulShape& shape) {
  MatmulCase c(shape);
  const Buffer out = c.Run(*MatmulKernels().back());
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t n = 0; n < c.n(); ++n) {
      const Sum exact = Exact(c, row, n);
      // Tree depth 4 at most; int8 terms carry one rounding more (dw*da).
      const double bound =
          2.0 * (exact.terms + 5.0) * kUnit * exact.magnitude + exact.terms * 0x1p-120;
      const double got = out.as<float>()[row * (c.n() + MatmulCase::kGuard) + n];
      ASSERT_LE(std::abs(got - exact.value), bound)
          << c.Describe() << " row " << row << " output " << n << " got " << got << " exact "
          << exact.value;
    }
  }
}

TEST(MatmulContract, IsNearTheExactSum) {
  uint32_t seed = 77;
  for (const int leaves : {1, 5, 16}) {
    for (const DType weight : kPlainTypes) {
      for (const DType x : {DType::kBF16, DType::kF32}) {
        MatmulShape shape{.weight = weight, .x = x, .m = 3, .n_starts = {0, 19}};
        shape.leaves = TestLeaves(weight, leaves);
        shape.range = {0, shape.leaves.count()};
        shape.seed = ++seed;
        ExpectNearDouble(shape);
      }
    }
    for (const DType weight : kBlockTypes) {
      for (const bool int8 : {false, true}) {
        MatmulShape shape{
            .weight = weight, .int8 = int8, .x = DType::kF32, .m = 3, .n_starts = {0, 19}};
        shape.leaves = TestLeaves(weight, leaves);
        shape.range = {0, shape.leaves.count()};
        shape.seed = ++seed;
        ExpectNearDouble(shape);
      }
    }
  }
}

// The order inside a pair, by numbers of which only one order gives the result.
TEST(MatmulContract, AddsTheOddInputOfAPairFirst) {
  MatmulShape shape{.weight = DType::kBF16, .n_starts = {0, 1}, .leaves = LeafTable::Whole(4)};
  MatmulCase c(shape);
  auto* panel = const_cast<std::byte*>(c.args().w.data[0]);
  const float weights[4] = {1.0f, 0x1p24f, 0.0f, -0x1p24f};
  for (int i = 0; i < 4; ++i) {
    const Bf16 w = ToBf16(weights[i]);
    std::memcpy(panel + i / 2 * 64 + i % 2 * 2, &w.bits, 2);
    c.args().x.row<Bf16>(0)[i] = ToBf16(1.0f);
  }
  // (1, 2^24), (0, -2^24): odd first, 2^24 + 1 rounds to 2^24 and then -2^24 leaves 0.
  for (const Kernel<MatmulArgs>* kernel : MatmulKernels()) {
    if (kernel->isa > DetectIsa() || !kernel->refuse(c.args()).empty()) continue;
    EXPECT_EQ(c.Run(*kernel).as<float>()[0], 0.0f) << kernel->name;
  }
  // (2^24, 0), (1, -2^24): odd first gives (2^24 - 2^24) + 1 = 1; even first would give 0.
  const float second[4] = {0x1p24f, 0.0f, 1.0f, -0x1p24f};
  for (int i = 0; i < 4; ++i) {
    const Bf16 w = ToBf16(second[i]);
    std::memcpy(panel + i / 2 * 64 + i % 2 * 2, &w.bits, 2);
  }
  for (const Kernel<MatmulArgs>* kernel : MatmulKernels()) {
    if (kernel->isa > DetectIsa() || !kernel->refuse(c.args()).empty()) continue;
    EXPECT_EQ(c.Run(*kernel).as<float>()[0], 1.0f) << kernel->name;
  }
}

TEST(MatmulContract, RoundsOnceToTheModelDtype) {
  MatmulShape shape{.weight = DType::kBF16, .m = 3, .n_starts = {0, 33}, .bias = true};
  MatmulCase wide(shape);
  shape.y = DType::kBF16;
  MatmulCase narrow(shape);
  const Buffer w = wide.Run(*MatmulKernels().back());
  const Buffer b = narrow.Run(*MatmulKernels().back());
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t n = 0; n < 33; ++n) {
      const int64_t at = row * (33 + MatmulCase::kGuard) + n;
      ASSERT_EQ(b.as<Bf16>()[at], ToBf16(w.as<float>()[at]));
    }
  }
}

}  // namespace
}  // namespace weft::kernels
