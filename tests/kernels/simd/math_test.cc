#include "kernels/simd/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/float_env.h"

namespace weft::kernels {
namespace {

// Distance from the exact value in ulps of the float nearest to it.
double UlpError(float got, double exact) {
  const auto near = static_cast<float>(exact);
  const double ulp = std::abs(static_cast<double>(std::nextafter(near, INFINITY)) - near);
  return std::abs(got - exact) / ulp;
}

// Every `step`-th float by bits, so all exponents, both signs, infinities, NaNs and denormals.
template <typename Visit>
void Sweep(uint32_t step, const Visit& visit) {
  for (uint64_t bits = 0; bits < (1ull << 32); bits += step) {
    visit(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
}

TEST(Exp, IsWithinOneUlp) {
  double worst = 0;
  float at = 0;
  const auto check = [&](float x) {
    const double error = UlpError(Exp(x), std::exp(double{x}));
    if (error > worst) worst = error, at = x;
  };
  for (int64_t i = 0; i <= 3000000; ++i) {
    check(static_cast<float>(-87.3365 + 176.059 * static_cast<double>(i) / 3000000.0));
  }
  for (float x = 1e-30f; x < 1.0f; x *= 1.01f) check(x), check(-x);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 1.0) << "at " << at;
  EXPECT_GT(worst, 0.4);  // else the measure is broken: no rounding is better than half an ulp
}

TEST(Exp, HasItsEnds) {
  ScopedFlushDenormals flush;
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  EXPECT_EQ(bits(Exp(-INFINITY)), 0u);
  EXPECT_EQ(bits(Exp(-87.34f)), 0u);
  EXPECT_EQ(bits(Exp(-3e38f)), 0u);
  EXPECT_EQ(bits(Exp(0.0f)), bits(1.0f));
  EXPECT_EQ(bits(Exp(-0.0f)), bits(1.0f));
  EXPECT_EQ(Exp(INFINITY), INFINITY);
  EXPECT_EQ(Exp(88.7229f), INFINITY);
  EXPECT_EQ(bits(Exp(std::bit_cast<float>(0xffc12345u))), 0x7fc00000u);
  // The least argument above the cut gives a normal number, the greatest below a finite one.
  EXPECT_GE(Exp(-0x1.5d589ep+6f), 0x1p-126f);
  EXPECT_EQ(Exp(std::nextafter(-0x1.5d589ep+6f, -INFINITY)), 0.0f);
  EXPECT_LT(Exp(0x1.62e42ep+6f), INFINITY);
  EXPECT_GT(Exp(0x1.62e42ep+6f), 3.4e38f);
}

TEST(Exp, ScalarAndVectorAgreeInEveryBit) {
  ScopedFlushDenormals flush;
  float in[8], out[8];
  int filled = 0;
  int64_t different = 0;
  Sweep(641, [&](float x) {
    in[filled++] = x;
    if (filled < 8) return;
    filled = 0;
    Exp(F8::Load(in)).Store(out);
    for (int i = 0; i < 8; ++i) {
      different += std::bit_cast<uint32_t>(out[i]) != std::bit_cast<uint32_t>(Exp(in[i]));
    }
    Silu(F8::Load(in)).Store(out);
    for (int i = 0; i < 8; ++i) {
      const float scalar = Silu(F1{in[i]}).v;
      different += std::bit_cast<uint32_t>(out[i]) != std::bit_cast<uint32_t>(scalar) &&
                   !(out[i] != out[i] && scalar != scalar);
    }
    Sigmoid(F8::Load(in)).Store(out);
    for (int i = 0; i < 8; ++i) {
      different += std::bit_cast<uint32_t>(out[i]) != std::bit_cast<uint32_t>(Sigmoid(F1{in[i]}).v);
    }
  });
  EXPECT_EQ(different, 0);
}

// exp is within an ulp and below the sum; the sum and the quotient round once each.
TEST(Sigmoid, IsWithinItsBoundAndHasItsEnds) {
  ScopedFlushDenormals flush;
  double worst = 0;
  for (int64_t i = 0; i <= 300000; ++i) {
    const float x = static_cast<float>(-80.0 + 160.0 * static_cast<double>(i) / 300000.0);
    worst = std::max(worst, std::abs(Sigmoid(F1{x}).v * (1 + std::exp(-double{x})) - 1));
  }
  EXPECT_LE(worst, 4 * 0x1p-24);
  EXPECT_EQ(Sigmoid(F1{0.0f}).v, 0.5f);
  EXPECT_EQ(Sigmoid(F1{INFINITY}).v, 1.0f);
  EXPECT_EQ(std::bit_cast<uint32_t>(Sigmoid(F1{-INFINITY}).v), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(Sigmoid(F1{-100.0f}).v), 0u);
  EXPECT_TRUE(std::isnan(Sigmoid(F1{NAN}).v));
}

TEST(Log, IsRoundedAlmostCorrectly) {
  double worst = 0;
  for (uint32_t bits = 0x00800000u; bits < 0x7f800000u; bits += 1009) {
    const float x = std::bit_cast<float>(bits);
    if (x == 1.0f) continue;
    worst = std::max(worst, UlpError(Log(x), std::log(double{x})));
  }
  EXPECT_LE(worst, 0.51);
  EXPECT_EQ(Log(1.0f), 0.0f);
}

TEST(Log1p, IsRoundedAlmostCorrectly) {
  double worst = 0;
  for (uint32_t bits = 0x00800000u; bits < 0x7f800000u; bits += 1009) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, UlpError(Log1p(x), std::log1p(double{x})));
  }
  EXPECT_LE(worst, 0.51);
  EXPECT_EQ(std::bit_cast<uint32_t>(Log1p(0.0f)), 0u);
  EXPECT_TRUE(std::isnan(Log1p(NAN)));
}

// exp is off by at most an ulp, which log1p does not enlarge (e log1p'(e) <= log1p(e)).
TEST(Softplus, IsWithinTwoUlp) {
  ScopedFlushDenormals flush;
  double worst = 0;
  for (float x = -87; x < 100; x += 0.00317f) {
    worst = std::max(worst, UlpError(Softplus(x), std::log1p(std::exp(double{x}))));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(Softplus(-200.0f), 0.0f);
  EXPECT_EQ(Softplus(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(Softplus(NAN)));
}

TEST(SinCosDouble, IsFarBelowAnUlpOfFloat) {
  double worst = 0;
  for (int64_t i = 0; i < 1000000; ++i) {
    const double x = static_cast<double>(i) * 1.0471 - 3e5;
    const SinCos got = SinCosDouble(x);
    worst = std::max({worst, std::abs(got.sin - std::sin(x)), std::abs(got.cos - std::cos(x))});
  }
  EXPECT_LE(worst, 0x1p-50);
  EXPECT_LE(std::abs(SinCosDouble(1e9).sin - std::sin(1e9)), 0x1p-50);
}

TEST(PowDouble, IsFarBelowAnUlpOfFloat) {
  for (double base : {10000.0, 500000.0, 1e6, 1e7}) {
    for (int i = 1; i < 64; ++i) {
      const double y = -2.0 * i / 128;
      EXPECT_LE(std::abs(PowDouble(base, y) / std::pow(base, y) - 1), 0x1p-48);
    }
  }
}

}  // namespace
}  // namespace weft::kernels
