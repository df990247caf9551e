#include "kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "kernels/sample/philox.h"
#include "kernels/variants.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

const Kernel<SampleArgs>& SampleContract() { return *SampleKernels().back(); }

struct Outcome {
  std::vector<SampleOut> out;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

Outcome Sample(const Kernel<SampleArgs>& kernel, const Matrix& logits,
               const std::vector<SampleRow>& rows, uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  constexpr int32_t kStride = 12;
  const LeafTable leaves = LeafTable::Make(logits.view().cols, 32);
  Outcome result;
  result.out.resize(rows.size());
  result.ids.assign(rows.size() * kStride, 77);
  result.logprobs.assign(rows.size() * kStride, 77);
  SampleArgs a{.logits = logits.view(),
               .rows = rows.data(),
               .out = result.out.data(),
               .top_ids = result.ids.data(),
               .top_logprobs = result.logprobs.data(),
               .top_stride = kStride,
               .vocab_leaf_begin = leaves.starts().data(),
               .vocab_leaves = leaves.count()};
  EXPECT_EQ(kernel.refuse(a), "");
  std::mt19937 random(slices);
  slices == 0 ? testing::RunWhole(kernel, a)
              : testing::RunSlices(kernel, a, testing::RandomSlices(kernel.units(a), random));
  return result;
}

bool SameBits(const Outcome& a, const Outcome& b) {
  return std::memcmp(a.out.data(), b.out.data(), a.out.size() * sizeof(SampleOut)) == 0 &&
         a.ids == b.ids &&
         std::memcmp(a.logprobs.data(), b.logprobs.data(), a.logprobs.size() * 4) == 0;
}

// Logits of `vocab` ids, with ties, some -inf, and a given spread.
Matrix Logits(int64_t rows, int64_t vocab, uint32_t seed, float spread) {
  Matrix x(DType::kF32, rows, vocab);
  x.Fill(seed, spread);
  std::mt19937 random(seed);
  for (int64_t r = 0; r < rows; ++r) {
    for (int i = 0; i < 10; ++i) {
      x.Set(r, random() % vocab, x.Get(r, random() % vocab));
      x.Set(r, random() % vocab, -INFINITY);
    }
    // Rounded, so that many ids tie.
    if (seed % 2 == 0) {
      for (int64_t c = 0; c < vocab; ++c) x.Set(r, c, std::round(x.Get(r, c) * 2) / 2);
    }
  }
  return x;
}

TEST(Sample, EveryVariantEqualsTheContract) {
  std::mt19937 random(3);
  const auto pick = [&](std::initializer_list<float> of) {
    return *(of.begin() + random() % of.size());
  };
  const std::vector<int32_t> seen_ids{1, 4, 9, 30}, seen_counts{0, 2, 1, 7};
  const std::vector<int32_t> bias_ids{2, 9}, banned{0, 5, 100000};
  const std::vector<float> bias{5, -3};
  for (int64_t vocab : {40, 333, 5003}) {
    std::vector<uint32_t> allowed(vocab / 32 + 1, 0xffffffffu);
    for (size_t i = 0; i < allowed.size(); i += 2) allowed[i] = 0x0ff01234u;
    for (uint32_t trial = 0; trial < 60; ++trial) {
      const Matrix logits = Logits(4, vocab, trial, pick({0.1f, 1, 4, 30}));
      std::vector<SampleRow> rows(4);
      for (SampleRow& row : rows) {
        row.temperature = pick({0, 0.3f, 1, 1, 2.5f});
        row.top_p = pick({1, 1, 0.95f, 0.5f, 0.01f});
        row.min_p = pick({0, 0, 0.05f, 0.9f, 1});
        row.top_k = static_cast<int32_t>(pick({0, 0, -1, 1, 20, 60, 9999}));
        row.repetition_penalty = pick({1, 1.3f, 0.7f});
        row.presence_penalty = pick({0, 0.5f});
        row.frequency_penalty = pick({0, 0.4f, -0.2f});
        row.seed = random();
        row.choice = random() % 3;
        row.position = random();
        row.seen_ids = seen_ids.data();
        row.seen_counts = seen_counts.data();
        row.seen = static_cast<int32_t>(random() % 5);
        row.bias_ids = bias_ids.data();
        row.bias = bias.data();
        row.biases = static_cast<int32_t>(random() % 3);
        row.banned = banned.data();
        row.banned_count = static_cast<int32_t>(random() % 4);
        row.allowed = random() % 4 == 0 ? allowed.data() : nullptr;
        row.logprobs = static_cast<int32_t>(pick({-1, 0, 3, 12}));
      }
      const Outcome expected = Sample(SampleContract(), logits, rows);
      for (const auto* kernel : testing::Runnable(SampleKernels())) {
        for (uint32_t slices : {0u, 1u}) {
          const Outcome got = Sample(*kernel, logits, rows, slices);
          ASSERT_TRUE(SameBits(got, expected))
              << kernel->name << " vocab " << vocab << " trial " << trial;
        }
      }
    }
  }
}

TEST(Sample, RowsWithoutACandidateOrWithNaNAreReported) {
  for (const auto* kernel : testing::Runnable(SampleKernels())) {
    Matrix x(DType::kF32, 4, 50);
    for (int64_t c = 0; c < 50; ++c) {
      x.Set(0, c, -INFINITY);
      x.Set(1, c, c == 30 ? NAN : static_cast<float>(c % 13));
      x.Set(2, c, NAN);
      x.Set(3, c, c == 8 ? INFINITY : 0.0f);
    }
    for (float temperature : {0.0f, 1.0f}) {
      const auto out =
          Sample(*kernel, x, std::vector<SampleRow>(4, {.temperature = temperature})).out;
      EXPECT_EQ(out[0].id, -1);
      EXPECT_EQ(out[0].has_nan, 1);
      EXPECT_GE(out[1].id, 0);
      EXPECT_NE(out[1].id, 30);
      EXPECT_EQ(out[1].has_nan, 1);
      EXPECT_EQ(out[2].id, -1);
      EXPECT_EQ(out[3].id, 8);
      EXPECT_EQ(out[3].has_nan, 1);
    }
  }
}

// Salmon et al.'s known answers for philox4x32-10 (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, 0),
            (Philox{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, ~0ull),
            (Philox{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(Philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822ull),
            (Philox{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(UniformDraw, IsUniformAndDependsOnEveryArgument) {
  std::vector<int> buckets(64);
  constexpr int kDraws = 64000;
  for (int i = 0; i < kDraws; ++i) {
    const float u = UniformDraw(42, 0, i, 1);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++buckets[static_cast<int>(u * 64)];
  }
  double chi = 0;
  for (int n : buckets) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_LT(chi, 63 + 6 * std::sqrt(2.0 * 63));
  const float base = UniformDraw(1, 2, 3, 4);
  EXPECT_EQ(UniformDraw(1, 2, 3, 4), base);
  for (float other : {UniformDraw(2, 2, 3, 4), UniformDraw(1ull << 40, 2, 3, 4),
                      UniformDraw(1, 3, 3, 4), UniformDraw(1, 2, 4, 4), UniformDraw(1, 2, 3, 5)}) {
    EXPECT_NE(other, base);
  }
}

std::vector<int> Histogram(const Kernel<SampleArgs>& kernel, const std::vector<float>& logits,
                           SampleRow row, int draws) {
  Matrix x(DType::kF32, 1, static_cast<int64_t>(logits.size()));
  for (size_t c = 0; c < logits.size(); ++c) x.Set(0, static_cast<int64_t>(c), logits[c]);
  std::vector<int> out(logits.size());
  row.seed = 20240607;
  for (int i = 0; i < draws; ++i) {
    row.position = i;
    ++out[Sample(kernel, x, {row}).out[0].id];
  }
  return out;
}

// T14 of spec/engine 5.A: whatever the vocabulary's last vector holds, an id is inside.
TEST(Sample, T14NoIdIsOutsideOfTheVocabulary) {
  for (const int64_t vocab : {100, 8193, 10000, 151936}) {
    Matrix logits(DType::kF32, 2, vocab);
    for (int64_t v = 0; v < vocab; ++v) {
      logits.Set(0, v, v >= vocab - 8 ? -INFINITY : 0.0f);  // the last of them never
      logits.Set(1, v, v >= vocab - 1 ? 0.0f : -INFINITY);  // it alone
    }
    for (const auto* kernel : testing::Runnable(SampleKernels())) {
      for (uint64_t seed = 1; seed <= 30; ++seed) {
        const Outcome got = Sample(*kernel, logits, {{.seed = seed}, {.seed = seed}});
        EXPECT_TRUE(got.out[0].id >= 0 && got.out[0].id < vocab - 8) << kernel->name;
        EXPECT_EQ(got.out[1].id, vocab - 1) << kernel->name;
      }
    }
  }
}

double ChiSquare(const std::vector<int>& seen, const std::vector<double>& p, int draws) {
  double chi = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * draws;
    if (expected > 0) {
      chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    } else if (seen[i] > 0) {
      chi = INFINITY;
    }
  }
  return chi;
}

// 40,000 draws over 8 ids: the limit is 6 sigma of chi-square with 7 degrees of freedom, 7 + 6
// sqrt(14). Power: an error that moves 2 % of the probability from one id to another of about 0.15
// adds n (0.02^2/0.15 + 0.02^2/0.15) = 213 to it, and is seen; the second half shows that.
TEST(Sample, DrawsFollowTheDistribution) {
  constexpr int kDraws = 40000;
  const std::vector<float> logits{0.3f, 0.1f, -0.2f, 0.0f, 0.7f, -1.0f, 0.2f, -0.4f};
  const double limit = 7 + 6 * std::sqrt(14.0);
  for (float temperature : {0.6f, 1.0f}) {
    std::vector<double> p;
    for (float x : logits) p.push_back(std::exp(double{x} / temperature));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= total;
    for (const auto* kernel : testing::Runnable(SampleKernels())) {
      const auto seen = Histogram(*kernel, logits, {.temperature = temperature}, kDraws);
      EXPECT_LT(ChiSquare(seen, p, kDraws), limit) << kernel->name;
      std::vector<double> wrong = p;
      wrong[0] -= 0.02;
      wrong[6] += 0.02;
      EXPECT_GT(ChiSquare(seen, wrong, kDraws), limit);
    }
  }
}

TEST(Sample, ProcessedDistributionIsTheOneOfTheProcessedLogits) {
  constexpr int kDraws = 40000;
  const std::vector<float> logits{1.0f, 0.5f, 0.5f, 0.0f, -0.5f, -1.0f};
  // temperature 1, ids 1 and 2 tie at the second place.
  const auto drawn = [&](SampleRow row) {
    std::set<int> ids;
    const auto seen = Histogram(*SampleKernels()[0], logits, row, 3000);
    for (int i = 0; i < 6; ++i) {
      if (seen[i] > 0) ids.insert(i);
    }
    return ids;
  };
  EXPECT_EQ(drawn({.top_k = 1}), (std::set<int>{0}));
  EXPECT_EQ(drawn({.top_k = 2}), (std::set<int>{0, 1, 2}));  // ties with the k-th stay
  EXPECT_EQ(drawn({.top_k = 4}), (std::set<int>{0, 1, 2, 3}));
  // p = 0.353, 0.214, 0.214, 0.130, 0.055...: top-p keeps while what is before is below p.
  EXPECT_EQ(drawn({.top_p = 0.3f}), (std::set<int>{0}));
  EXPECT_EQ(drawn({.top_p = 0.5f}), (std::set<int>{0, 1}));  // the tie is cut by id
  EXPECT_EQ(drawn({.top_p = 0.6f}), (std::set<int>{0, 1, 2}));
  // min-p: exp(x - 1) >= 0.5 for x >= 0.307.
  EXPECT_EQ(drawn({.min_p = 0.5f}), (std::set<int>{0, 1, 2}));
  EXPECT_EQ(drawn({.min_p = 1.0f}), (std::set<int>{0}));
  // top-p counts over what top-k left: 0.353 / (0.353 + 0.428) = 0.452 < 0.46.
  EXPECT_EQ(drawn({.top_p = 0.46f, .top_k = 3}), (std::set<int>{0, 1}));

  const std::vector<int32_t> ids{0, 1, 4}, counts{1, 0, 2};
  const SampleRow row{.repetition_penalty = 2,
                      .presence_penalty = 0.25f,
                      .frequency_penalty = 0.5f,
                      .seen_ids = ids.data(),
                      .seen_counts = counts.data(),
                      .seen = 3};
  // 0: 1/2 - 0.5 - 0.25; 1: 0.5/2 (prompt only); 4: -0.5*2 - 2*0.5 - 0.25.
  const std::vector<double> x{-0.25, 0.25, 0.5, 0.0, -2.25, -1.0};
  std::vector<double> p;
  for (double v : x) p.push_back(std::exp(v));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= total;
  EXPECT_LT(ChiSquare(Histogram(*SampleKernels()[0], logits, row, kDraws), p, kDraws),
            5 + 6 * std::sqrt(10.0));
}

TEST(Sample, MasksAndBiasComeBeforeTheChoice) {
  Matrix x(DType::kF32, 1, 70);
  for (int64_t c = 0; c < 70; ++c) x.Set(0, c, static_cast<float>(c) / 10);
  const std::vector<int32_t> banned{69, 67};
  const std::vector<uint32_t> allowed{0xffffffffu, 0xffffffffu, 0x2eu};  // 65, 66, 67, 69
  const std::vector<int32_t> bias_ids{3};
  const std::vector<float> bias{100};
  for (const auto* kernel : testing::Runnable(SampleKernels())) {
    const auto id = [&](SampleRow row) {
      row.temperature = 0;
      return Sample(*kernel, x, {row}).out[0].id;
    };
    EXPECT_EQ(id({}), 69);
    EXPECT_EQ(id({.banned = banned.data(), .banned_count = 2}), 68);
    EXPECT_EQ(id({.banned = banned.data(), .banned_count = 2, .allowed = allowed.data()}), 66);
    EXPECT_EQ(id({.bias_ids = bias_ids.data(), .bias = bias.data(), .biases = 1}), 3);
  }
}

// The raw distribution in double; fp32 sums of 1,000 terms in 16 lanes per leaf and a tree, exp
// within an ulp, log within half, two subtractions of numbers below 64: 1e-5 is ten times that.
TEST(Sample, LogProbabilitiesAreOfTheRawLogits) {
  const Matrix x = Logits(1, 1000, 7, 4);
  std::vector<double> raw;
  for (int64_t c = 0; c < 1000; ++c) raw.push_back(x.Get(0, c));
  const double top = *std::max_element(raw.begin(), raw.end());
  double sum = 0;
  for (double v : raw) sum += std::exp(v - top);
  const std::vector<int32_t> banned{
      static_cast<int32_t>(std::max_element(raw.begin(), raw.end()) - raw.begin())};
  const auto got =
      Sample(*SampleKernels()[0], x,
             {{.temperature = 0, .banned = banned.data(), .banned_count = 1, .logprobs = 5}});
  EXPECT_NE(got.out[0].id, banned[0]);
  EXPECT_EQ(got.out[0].rank, 2);  // the banned one is ahead of it in the raw logits
  EXPECT_NEAR(got.out[0].logprob, raw[got.out[0].id] - top - std::log(sum), 1e-5);
  EXPECT_EQ(got.ids[0], banned[0]);
  EXPECT_EQ(got.ids[1], got.out[0].id);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(got.logprobs[i], raw[got.ids[i]] - top - std::log(sum), 1e-5);
    EXPECT_LE(got.logprobs[i], got.logprobs[i > 0 ? i - 1 : 0]);
  }
  EXPECT_EQ(got.ids[5], 77);  // nothing beyond what was asked
}

}  // namespace
}  // namespace weft::kernels
