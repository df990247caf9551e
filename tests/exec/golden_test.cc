// Right: logits against Hugging Face transformers (tests/models/data/README.md).
// Covers src/exec/op_args.cc src/exec/weights.cc src/exec/bind_exchanges.cc src/exec/bind_hybrid.cc
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "support/checkpoints.h"

namespace weft::exec {
namespace {

using support::Forward;
using support::Golden;

struct Case {
  std::string folder;
  int ranks;
};

std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) {
  return std::filesystem::path(info.param.folder).filename().string() + "_tp" +
         std::to_string(info.param.ranks);
}

std::vector<Case> Cases(std::initializer_list<int> ranks) {
  std::vector<Case> cases;
  for (const std::string& folder : support::TinyCheckpoints()) {
    for (int r : ranks) cases.push_back({folder, r});
  }
  return cases;
}

struct Errors {
  double largest = 0;     // |logit - reference|
  double reference2 = 0;  // sum of squares of the reference
  double error2 = 0;      // and of the error
  int64_t count = 0;
  int positions = 0;
  double Rms() const { return std::sqrt(reference2 / static_cast<double>(count)); }
  double ErrorRms() const { return std::sqrt(error2 / static_cast<double>(count)); }
};

// Every golden prompt of a folder through one executor.
Errors Compare(const std::string& folder, ExecConfig config) {
  Errors errors;
  const auto checkpoint = support::OpenCheckpoint(folder);
  const auto executor = support::MakeExecutor(*checkpoint, std::move(config));
  if (executor == nullptr) return errors;
  const Golden golden(folder + "/golden.safetensors");
  const int64_t vocab = checkpoint->config().vocab_size;
  for (int i = 0;; ++i) {
    const std::string name = "prompt" + std::to_string(i);
    const auto ids = golden.Get<int32_t>(name + ".ids");
    if (ids.empty()) break;
    const auto logits = golden.Get<float>(name + ".logits");
    const int64_t known = static_cast<int64_t>(logits.size()) / vocab;
    const int64_t first = static_cast<int64_t>(ids.size()) - known;
    Forward(*executor, ids, 64, [&](int32_t position, std::span<const float> row, uint64_t) {
      if (position < first) return;
      ++errors.positions;
      for (int64_t v = 0; v < vocab; ++v) {
        const double want = logits[(position - first) * vocab + v];
        const double error = std::abs(row[v] - want);
        errors.largest = std::max(errors.largest, error);
        errors.reference2 += want * want;
        errors.error2 += error * error;
        ++errors.count;
      }
    });
  }
  return errors;
}

class TinyFloat32 : public ::testing::TestWithParam<Case> {};

TEST_P(TinyFloat32, LogitsAreThoseOfTransformers) {
  ExecConfig config = support::SmallConfig(GetParam().ranks);
  config.model_dtype = DType::kF32;
  const Errors errors = Compare(GetParam().folder, config);
  EXPECT_GE(errors.positions, 16);
  EXPECT_GT(errors.Rms(), 0.01) << "the reference says nothing";
  EXPECT_LE(errors.largest, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Golden, TinyFloat32, ::testing::ValuesIn(Cases({1, 3})), NameOfCase);

// The bound. Rounding to bfloat16 (8 significant bits) is a relative error of at most u = 2^-8.
// Along the residual stream a layer rounds: norm, q, k, v, q/k norm, rope, attention, o_proj,
// residual, norm, gate, up, silu * up, down_proj, residual: 15 in all, and the ends two more. A
// norm keeps the stream's scale, so to first order a rounding reaches the logits with a relative
// size of at most u; in the worst case all point the same way:
//   rms error <= rms(logits) * u * (15 * layers + 2).
// Independent roundings would add in squares, to a few u; what is seen lies between the two.
class TinyBf16 : public ::testing::TestWithParam<Case> {};

TEST_P(TinyBf16, ErrorIsThatOfItsRoundings) {
  const Errors errors = Compare(GetParam().folder, support::SmallConfig(GetParam().ranks));
  const auto checkpoint = support::OpenCheckpoint(GetParam().folder);
  const double roundings = 15.0 * static_cast<double>(checkpoint->config().layers) + 2;
  const double bound = errors.Rms() * std::exp2(-8) * roundings;
  const double independent = errors.Rms() * std::exp2(-8) / std::sqrt(3.0) * std::sqrt(roundings);
  // The largest of n Gaussian errors.
  const double tail = std::sqrt(2 * std::log(static_cast<double>(errors.count))) + 1;
  std::printf("bf16: rms error %.2e, independent roundings %.2e, bound %.2e; largest %.2e\n",
              errors.ErrorRms(), independent, bound, errors.largest);
  EXPECT_LE(errors.ErrorRms(), bound);
  EXPECT_LE(errors.largest, bound * tail);
  EXPECT_GT(errors.ErrorRms(), independent / 100) << "nothing was rounded";
}

INSTANTIATE_TEST_SUITE_P(Golden, TinyBf16, ::testing::ValuesIn(Cases({1})), NameOfCase);

TEST(TinyGreedy, ContinuationsAreThoseOfTransformers) {
  int compared = 0;
  for (const std::string& folder : support::TinyCheckpoints()) {
    const auto checkpoint = support::OpenCheckpoint(folder);
    ExecConfig config = support::SmallConfig(2);
    config.model_dtype = DType::kF32;
    const auto executor = support::MakeExecutor(*checkpoint, config);
    ASSERT_NE(executor, nullptr);
    const Golden golden(folder + "/golden.safetensors");
    for (int i = 0;; ++i) {
      const std::string name = "prompt" + std::to_string(i);
      auto ids = golden.Get<int32_t>(name + ".ids");
      const auto greedy = golden.Get<int32_t>(name + ".greedy");
      if (ids.empty()) break;
      if (greedy.empty()) continue;
      const size_t prompt = ids.size();
      ids.insert(ids.end(), greedy.begin(), greedy.end());
      Forward(*executor, ids, 64, [&](int32_t position, std::span<const float> row, uint64_t) {
        const size_t next = position + 1;
        if (next < prompt || next >= ids.size()) return;
        const auto best = std::max_element(row.begin(), row.end()) - row.begin();
        EXPECT_EQ(best, ids[next]) << folder << " " << name << " position " << position;
        ++compared;
      });
    }
  }
  EXPECT_GE(compared, 200);
}

// ---- The real model -----------------------------------------------------------------------------

struct Judgement {
  int positions = 0;
  double kl = 0;                // over the reference's eight best ids and the rest as one
  double cosine = 0;            // of the eight logits, each less their mean
  std::vector<double> margins;  // of the reference, where the first tokens differ
  std::vector<double> all_margins;
  double margin_error2 = 0;  // of the difference of the reference's two best logits

  void Add(const int32_t* ids, const float* logits, size_t top, float lse,
           std::span<const float> row) {
    const auto best = std::max_element(row.begin(), row.end());
    const double margin = logits[0] - logits[1];
    if (best - row.begin() != ids[0]) margins.push_back(margin);
    all_margins.push_back(margin);
    margin_error2 += std::pow(row[ids[0]] - row[ids[1]] - margin, 2);
    double sum = 0;
    for (float x : row) sum += std::exp(static_cast<double>(x) - *best);
    const double own_lse = *best + std::log(sum);
    double p_rest = 1, q_rest = 1, mean = 0, own_mean = 0;
    for (size_t j = 0; j < top; ++j) {
      const double p = std::exp(logits[j] - lse), q = std::exp(row[ids[j]] - own_lse);
      kl += p * std::log(p / q);
      p_rest -= p;
      q_rest -= q;
      mean += logits[j] / static_cast<double>(top);
      own_mean += row[ids[j]] / static_cast<double>(top);
    }
    if (p_rest > 1e-9 && q_rest > 1e-9) kl += p_rest * std::log(p_rest / q_rest);
    double aa = 0, bb = 0, ab = 0;
    for (size_t j = 0; j < top; ++j) {
      const double a = logits[j] - mean, b = row[ids[j]] - own_mean;
      aa += a * a;
      bb += b * b;
      ab += a * b;
    }
    cosine += ab / std::sqrt(aa * bb);
    ++positions;
  }

  // Rms error of the margin, and how many first tokens Gaussian noise of that size would turn.
  double noise() const { return std::sqrt(margin_error2 / positions); }
  double ExpectedTurns() const {
    double turns = 0;
    for (double margin : all_margins) turns += std::erfc(margin / noise() / std::sqrt(2.0)) / 2;
    return turns;
  }
  void Report(const char* what) const {
    std::printf(
        "SmolLM2 %s: %d positions, %zu first tokens differ (%.2f %%), mean KL %.2e, mean "
        "cosine %.6f, margin noise %.4f (would turn %.1f); margins there:",
        what, positions, margins.size(), 100.0 * static_cast<double>(margins.size()) / positions,
        kl / positions, cosine / positions, noise(), ExpectedTurns());
    for (double margin : margins) std::printf(" %.3f", margin);
    std::printf("\n");
  }
};

Judgement JudgeSmolLm2(ExecConfig config) {
  Judgement out;
  const auto checkpoint = support::OpenCheckpoint(support::RealModel());
  config.tokens_max = 128;
  config.seqs_max = 128;
  config.positions_max = 2048;
  config.kv_bytes = int64_t{1} << 28;
  const auto executor = support::MakeExecutor(*checkpoint, std::move(config));
  if (executor == nullptr) return out;
  const Golden golden(WEFT_TESTS_DIR "/models/data/smollm2_golden.safetensors");
  for (int i = 0;; ++i) {
    const std::string name = "text" + std::to_string(i);
    const auto ids = golden.Get<int32_t>(name + ".ids");
    if (ids.empty()) break;
    const auto top_ids = golden.Get<int32_t>(name + ".top_ids");
    const auto top_logits = golden.Get<float>(name + ".top_logits");
    const auto lse = golden.Get<float>(name + ".lse");
    const size_t top = top_ids.size() / ids.size();
    Forward(*executor, ids, 128, [&](int32_t t, std::span<const float> row, uint64_t) {
      out.Add(top_ids.data() + t * top, top_logits.data() + t * top, top, lse[t], row);
    });
  }
  std::sort(out.margins.begin(), out.margins.end());
  return out;
}

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::RealModel().empty()) GTEST_SKIP() << "WEFT_TEST_MODEL is not set";
  }
};

Judgement Judge(DType dtype, bool int8, int ranks, int threads) {
  ExecConfig config = support::SmallConfig(ranks, threads);
  config.model_dtype = dtype;
  config.int8_activations = int8;
  return JudgeSmolLm2(std::move(config));
}

TEST_F(SmolLm2, Float32WithBf16ActivationsAgreesWhereTheReferenceIsSure) {
  const Judgement j = Judge(DType::kF32, false, 1, 2);
  j.Report("float32, bf16 activations");
  EXPECT_GE(j.positions, 1000);
  for (double margin : j.margins) EXPECT_LE(margin, 0.1);
}

// int8 rounds a block of 32 to amax/127: an error of amax/(127 sqrt(12)) rms, and amax is near 2.4
// rms of a Gaussian block, so 0.55 % of rms. bf16 rounds to 2^-8/sqrt(3) at most and 0.7 of that
// over a binade: 0.16 %. The ratio is 3.5; half as much again is left for blocks that are no
// Gaussians. What that noise turns are first tokens by chance, and none whose margin is beyond it.
TEST_F(SmolLm2, DefaultClassesErrByTheirRoundingsAlone) {
  const Judgement exact = Judge(DType::kF32, false, 1, 2);
  const Judgement j = Judge(DType::kBF16, true, 2, 2);
  j.Report("bf16, int8 activations");
  EXPECT_GE(j.positions, 1000);
  EXPECT_LE(j.noise(), 3.5 * 1.5 * exact.noise());
  EXPECT_GE(j.noise(), exact.noise()) << "int8 was not used";
  const double turns = j.ExpectedTurns();
  EXPECT_LE(static_cast<double>(j.margins.size()), turns + 4 * std::sqrt(turns));
  for (double margin : j.margins) EXPECT_LE(margin, 5 * j.noise());
}

}  // namespace
}  // namespace weft::exec
