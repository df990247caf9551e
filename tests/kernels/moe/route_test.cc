#include "kernels/moe/route.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::Matrix;

const Kernel<RouteArgs>& RouteContract() { return *RouteKernels().back(); }

struct RouteResult {
  Buffer ids, weights;
};

// Room for a row more than there is: a guard.
RouteResult Route(const Kernel<RouteArgs>& kernel, RouteArgs a, uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  EXPECT_EQ(kernel.refuse(a), "");
  const int64_t bytes = (a.logits.rows + 1) * a.top_k * 4;
  RouteResult out{Buffer(bytes), Buffer(bytes)};
  a.ids = out.ids.as<int32_t>();
  a.weights = out.weights.as<float>();
  if (slices == 0) {
    testing::RunWhole(kernel, a);
  } else {
    std::mt19937 random(slices);
    testing::RunSlices(kernel, a, testing::RandomSlices(kernel.units(a), random));
  }
  return out;
}

// What rows are made of: plain values, values of which many tie, and every extreme.
enum class Kind { kPlain, kTies, kExtremes };

void FillLogits(Kind kind, const Matrix& logits, std::mt19937& random) {
  const float inf = std::numeric_limits<float>::infinity();
  const float extremes[] = {0.0f,
                            -0.0f,
                            1e-40f,
                            -1e-40f,
                            200.0f,
                            -200.0f,
                            88.0f,
                            -88.0f,
                            -inf,
                            inf,
                            std::numeric_limits<float>::quiet_NaN(),
                            3e38f,
                            -3e38f,
                            1.0f};
  std::normal_distribution<float> normal(0, 3);
  const View view = logits.view();
  for (int64_t t = 0; t < view.rows; ++t) {
    const uint32_t allowed = t % 3 == 0   ? 14
                             : t % 3 == 1 ? 8
                                          : 9;  // with NaN and +inf; finite; -inf
    for (int64_t e = 0; e < view.cols; ++e) {
      float x = normal(random);
      if (kind == Kind::kTies) x = static_cast<float>(random() % 3) - 1;
      if (kind == Kind::kExtremes && random() % 4 != 0) x = extremes[random() % allowed];
      logits.Set(t, e, x);
    }
  }
}

struct Choice {
  int64_t experts;
  int top_k, groups, groups_kept;
};
constexpr Choice kChoices[] = {{1, 1, 1, 1},    {5, 5, 1, 1},    {8, 2, 1, 1},    {17, 3, 1, 1},
                               {60, 6, 6, 3},   {64, 64, 1, 1},  {128, 8, 1, 1},  {160, 6, 8, 3},
                               {100, 7, 50, 9}, {256, 8, 8, 4},  {384, 8, 1, 1},  {512, 10, 1, 1},
                               {264, 9, 3, 2},  {512, 64, 4, 1}, {1024, 8, 32, 5}};

// visit(args, correction's name) for each choice, kind, scoring and correction.
template <typename Visit>
void ForEachRoute(const Visit& visit) {
  uint32_t seed = 1;
  for (const Choice& c : kChoices) {
    for (const Kind kind : {Kind::kPlain, Kind::kTies, Kind::kExtremes}) {
      for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid}) {
        for (const int corrected : {0, 1, 2}) {
          std::mt19937 random(++seed);
          const Matrix logits(DType::kF32, 7, c.experts);
          FillLogits(kind, logits, random);
          std::vector<float> correction(static_cast<size_t>(c.experts));
          for (float& x : correction) x = static_cast<float>(random() % 2001) / 1000 - 1;
          if (corrected == 2) correction[random() % correction.size()] = std::nanf("");
          RouteArgs a{.logits = logits.view(), .top_k = c.top_k, .scoring = scoring};
          if (corrected > 0) a.correction = correction.data();
          a.renormalise = seed % 2 == 0;
          a.scale = seed % 3 == 0 ? 2.5f : 1.0f;
          a.groups = c.groups;
          a.groups_kept = c.groups_kept;
          visit(a);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

std::string Describe(const RouteArgs& a) {
  return std::to_string(a.top_k) + " of " + std::to_string(a.logits.cols) + " experts, " +
         std::to_string(a.groups_kept) + " of " + std::to_string(a.groups) + " groups, " +
         (a.scoring == Scoring::kSoftmax ? "softmax" : "sigmoid") +
         (a.correction != nullptr ? ", corrected" : "") + (a.renormalise ? ", renormalised" : "");
}

TEST(Route, EveryVariantEqualsTheContract) {
  ForEachRoute([](const RouteArgs& a) {
    const RouteResult expected = Route(RouteContract(), a);
    for (const auto* kernel : testing::Runnable(RouteKernels())) {
      for (const uint32_t slices : {0u, 3u}) {
        const RouteResult got = Route(*kernel, a, slices);
        ASSERT_EQ(got.ids, expected.ids) << kernel->name << ": " << Describe(a);
        ASSERT_EQ(got.weights, expected.weights) << kernel->name << ": " << Describe(a);
      }
    }
  });
}

TEST(Route, IdsAreValidAndAscendWhateverTheLogits) {
  ForEachRoute([](const RouteArgs& a) {
    const RouteResult got = Route(RouteContract(), a);
    for (int64_t t = 0; t < a.logits.rows; ++t) {
      const int32_t* ids = got.ids.as<int32_t>() + t * a.top_k;
      ASSERT_GE(ids[0], 0) << Describe(a);
      for (int i = 1; i < a.top_k; ++i) ASSERT_GT(ids[i], ids[i - 1]) << Describe(a);
      ASSERT_LT(ids[a.top_k - 1], a.logits.cols) << Describe(a);
    }
  });
}

TEST(Route, ChoosesTheLargestAndOfEqualOnesTheLowestId) {
  ForEachRoute([](const RouteArgs& a) {
    if (a.groups > 1 || a.correction != nullptr) return;
    ScopedFlushDenormals flush;
    const RouteResult got = Route(RouteContract(), a);
    for (int64_t t = 0; t < a.logits.rows; ++t) {
      const auto* logits = a.logits.row<const float>(t);
      std::vector<int32_t> order(static_cast<size_t>(a.logits.cols));
      std::iota(order.begin(), order.end(), 0);
      const auto value = [&](int32_t e) { return std::isnan(logits[e]) ? -INFINITY : logits[e]; };
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t x, int32_t y) { return value(x) > value(y); });
      std::sort(order.begin(), order.begin() + a.top_k);
      for (int i = 0; i < a.top_k; ++i) {
        ASSERT_EQ(got.ids.as<int32_t>()[t * a.top_k + i], order[static_cast<size_t>(i)])
            << Describe(a);
      }
    }
  });
}

// With u = 2^-24 and D the largest |logit - max|: the difference is off by D u, exp adds 2 u, a sum
// of E positive numbers in 16 lanes and a tree (E/16 + 4) u, the quotient u; to renormalise adds
// the same error once more and (k + 1) u; the scale u. 1.01 for the products of these.
TEST(Route, WeightsAreWithinTheirBoundOfDouble) {
  ScopedFlushDenormals flush;
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid}) {
    for (const bool renormalise : {false, true}) {
      const Matrix logits(DType::kF32, 5, 256);
      logits.Fill(11, 2);
      const RouteArgs a{.logits = logits.view(),
                        .top_k = 8,
                        .scoring = scoring,
                        .renormalise = renormalise,
                        .scale = 2.5f};
      const RouteResult got = Route(RouteContract(), a);
      for (int64_t t = 0; t < 5; ++t) {
        const auto* row = a.logits.row<const float>(t);
        const double max = *std::max_element(row, row + 256);
        const double least = *std::min_element(row, row + 256);
        double sum = 0;
        for (int64_t e = 0; e < 256; ++e) sum += std::exp(row[e] - max);
        const auto score = [&](int32_t e) {
          return scoring == Scoring::kSoftmax ? std::exp(row[e] - max) / sum
                                              : 1 / (1 + std::exp(-double{row[e]}));
        };
        double chosen = 0;
        for (int i = 0; i < 8; ++i) chosen += score(got.ids.as<int32_t>()[t * 8 + i]);
        const double error =
            scoring == Scoring::kSoftmax ? 2 * (max - least + 2) + 256.0 / 16 + 4 + 1 : 4;
        const double bound = 1.01 * 0x1p-24 * ((renormalise ? 2 * error + 8 + 1 : error) + 1);
        for (int i = 0; i < 8; ++i) {
          const double exact =
              score(got.ids.as<int32_t>()[t * 8 + i]) / (renormalise ? chosen : 1) * 2.5;
          ASSERT_LE(std::abs(got.weights.as<float>()[t * 8 + i] / exact - 1), bound)
              << t << " " << i;
        }
      }
    }
  }
}

// By hand: three groups of four; the correction decides who is chosen and is not in the weights.
TEST(Route, GroupsAreWorthTheirTwoBestAndTiesGoToTheLowestGroup) {
  const Matrix logits(DType::kF32, 1, 12);
  for (int64_t e = 0; e < 12; ++e) logits.Set(0, e, 0.0f);  // sigmoid 0.5
  //                              best two 0.75             best two 1.0            best two 1.0
  const float correction[12] = {0.75f, 0, 0, -0.25f, 0.25f, 0.75f, 0, 0.25f, 0, 0.5f, 0.5f, -0.5f};
  RouteArgs a{.logits = logits.view(),
              .correction = correction,
              .top_k = 3,
              .scoring = Scoring::kSigmoid,
              .renormalise = true,
              .scale = 3,
              .groups = 3,
              .groups_kept = 1};
  for (const auto* kernel : testing::Runnable(RouteKernels())) {
    const RouteResult one = Route(*kernel, a);
    EXPECT_EQ((std::vector<int32_t>{4, 5, 7}),
              std::vector<int32_t>(one.ids.as<int32_t>(), one.ids.as<int32_t>() + 3));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(one.weights.as<float>()[i], 1.0f) << kernel->name;
    RouteArgs two = a;
    two.groups_kept = 2;
    const RouteResult both = Route(*kernel, two);
    EXPECT_EQ((std::vector<int32_t>{5, 9, 10}),
              std::vector<int32_t>(both.ids.as<int32_t>(), both.ids.as<int32_t>() + 3));
  }
}

// What a dropped group holds is no choice even where everything kept is worse than nothing.
TEST(Route, ADroppedGroupIsNoChoiceWhenKeptValuesAreNegative) {
  const Matrix logits(DType::kF32, 1, 4);
  for (int64_t e = 0; e < 4; ++e) logits.Set(0, e, -100.0f);  // sigmoid +0
  const float correction[4] = {-1, -1, -2, 0};
  const RouteArgs a{.logits = logits.view(),
                    .correction = correction,
                    .top_k = 2,
                    .scoring = Scoring::kSigmoid,
                    .groups = 2,
                    .groups_kept = 1};
  for (const auto* kernel : testing::Runnable(RouteKernels())) {
    const RouteResult got = Route(*kernel, a);
    EXPECT_EQ(got.ids.as<int32_t>()[0], 0) << kernel->name;
    EXPECT_EQ(got.ids.as<int32_t>()[1], 1) << kernel->name;
  }
}

TEST(Route, ANaNIsSeenInEveryWeightOfItsRowAndInNoOther) {
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid}) {
    const Matrix logits(DType::kF32, 2, 40);
    logits.Fill(3);
    logits.Set(0, 37, std::nanf(""));
    const RouteArgs a{.logits = logits.view(), .top_k = 4, .scoring = scoring};
    const RouteResult got = Route(RouteContract(), a);
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(std::isnan(got.weights.as<float>()[i]));
      EXPECT_NE(got.ids.as<int32_t>()[i], 37);
      EXPECT_TRUE(std::isfinite(got.weights.as<float>()[4 + i]));
    }
  }
}

TEST(Route, RefusalsNameTheNumber) {
  const Matrix logits(DType::kF32, 1, 32);
  const RouteArgs a{.logits = logits.view(), .top_k = 8};
  const auto refused = [&](auto change) {
    RouteArgs b = a;
    change(b);
    return RouteContract().refuse(b);
  };
  EXPECT_EQ(RouteContract().refuse(a), "");
  EXPECT_EQ(refused([](RouteArgs& b) { b.top_k = 65; }), "top 65, not 1 to 64");
  EXPECT_EQ(refused([](RouteArgs& b) { b.top_k = 33; }), "top 33 of 32 experts");
  EXPECT_EQ(refused([](RouteArgs& b) { b.groups = 5; }), "32 experts in 5 groups");
  EXPECT_EQ(refused([](RouteArgs& b) { b.groups = 4, b.groups_kept = 5; }), "5 of 4 groups kept");
  EXPECT_EQ(refused([](RouteArgs& b) { b.groups = 8, b.groups_kept = 1; }), "top 8 of 4 experts");
  EXPECT_EQ(refused([](RouteArgs& b) { b.groups = 32, b.groups_kept = 9; }),
            "groups of one expert: a group is worth its best two");
  EXPECT_EQ(refused([](RouteArgs& b) { b.logits.cols = 1025; }), "1025 experts, at most 1024");
  EXPECT_EQ(refused([](RouteArgs& b) { b.logits.dtype = DType::kBF16; }), "logits in bfloat16");
}

}  // namespace
}  // namespace weft::kernels
