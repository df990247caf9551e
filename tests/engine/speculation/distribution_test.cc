// Speculation keeps the distribution: what engines that draft answer to many seeds, against the
// exact probabilities, by chi-square, and wrong engines that must exceed the same limit.
// Covers src/engine/commit.cc src/engine/step_inputs.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Harness;
using support::HarnessConfig;
using support::HashModel;

constexpr int32_t kVocab = 32, kDrafts = 2, kTokens = 3, kAtOnce = 8;
constexpr float kTemperature = 3;  // the hash model's logits are -8 to 8
const std::vector<int32_t> kPrompt{3, 1, 4};

// What is wrong with the engine or with what verifies.
enum class Wrong {
  kNothing,
  kForcesDrafts,      // one rejected draft in ten is accepted
  kBonusFromTheHead,  // the row behind all drafts is the draft head's guess, one time in five
  kColder,            // rows are drawn at another temperature
  kOnePosition,       // all rows of a step are drawn by one random number
};

SamplingParams Plain() {
  return {.temperature = kTemperature, .max_tokens = kTokens, .ignore_eos = true};
}

std::vector<double> Probabilities(const HashModel& model, const SamplingParams& params,
                                  const std::vector<int32_t>& tokens) {
  const uint64_t hash = SequenceHash(model, tokens);
  std::vector<float> logits(kVocab);
  for (int32_t v = 0; v < kVocab; ++v) logits[v] = model.Logit(hash, v);
  for (const auto& [id, bias] : params.logit_bias) logits[id] += bias;
  std::vector<int32_t> order(kVocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) order.resize(static_cast<size_t>(params.top_k));
  std::vector<double> p(kVocab);
  double total = 0, kept = 0;
  for (const int32_t v : order)
    total += p[v] = std::exp(static_cast<double>(logits[v]) / params.temperature);
  for (const int32_t v : order) {
    if (kept >= params.top_p * total) p[v] = 0;
    kept += p[v];
  }
  for (double& x : p) x /= kept;
  return p;
}

// Of all answers of three tokens, [V * V * V]; the drafts that came true.
struct Counts {
  std::vector<int> answers = std::vector<int>(kVocab * kVocab * kVocab);
  uint64_t drafted = 0, accepted = 0;
};

Counts Ask(const SamplingParams& params, int seeds, bool drawn, Wrong wrong = Wrong::kNothing) {
  HarnessConfig c;
  c.engine.speculation = {
      .method = SpeculationMethod::kMtp, .tokens = kDrafts, .drawn = drawn, .lookup_min = 1};
  c.engine.enable_prefix_caching = false;
  c.executor.limits.vocab_size = kVocab;
  c.executor.limits.draft_head = true;
  c.executor.limits.draft_tokens = kDrafts;
  c.executor.limits.seqs_max = kAtOnce;
  c.executor.limits.rows_max = kAtOnce * (1 + kDrafts);
  Harness h(c);
  h.executor->drafts_are_whole = false;
  Rng rng(7);
  h.executor->after_row = [&](const plan::StepInputs& in, size_t head, SampleOut* out) {
    const auto row = static_cast<size_t>(in.head_rows[head]);
    const bool more = head + 1 < in.head_rows.size() &&
                      static_cast<size_t>(in.head_rows[head + 1]) == row + 1 &&
                      in.positions[row + 1] == in.positions[row] + 1;
    if (wrong == Wrong::kForcesDrafts && more && rng.Below(10) == 0) out->id = in.ids[row + 1];
    if (wrong == Wrong::kBonusFromTheHead && !more && in.positions[row] > 2 && rng.Below(5) == 0)
      out->id = static_cast<int32_t>(rng.Below(4));
    if (wrong == Wrong::kOnePosition && in.positions[row] > 2) {
      SampleRow one = in.sample[head];
      one.position = 0;
      out->id = h.executor->model().Sample(h.executor->hidden(in.head_rows[head]), one).id;
    }
  };
  Counts counts;
  for (int first = 0; first < seeds; first += kAtOnce) {
    std::vector<std::vector<int32_t>> ids(kAtOnce);
    for (int i = 0; i < kAtOnce; ++i) {
      SamplingParams own = params;
      own.seed = static_cast<uint64_t>(first + i);
      if (wrong == Wrong::kColder) own.temperature *= 0.8f;
      auto request = h.Make(std::to_string(i), kPrompt, std::move(own));
      request->sink = [&ids, i](TokenEvent event) {
        if (event.id >= 0) ids[static_cast<size_t>(i)].push_back(event.id);
      };
      EXPECT_TRUE(h.engine->Submit(std::move(request)).ok());
    }
    h.Drain();
    for (const auto& answer : ids) {
      EXPECT_EQ(answer.size(), 3u);
      if (answer.size() == 3)
        ++counts.answers[(answer[0] * kVocab + answer[1]) * kVocab + answer[2]];
    }
  }
  counts.drafted = h.engine->Metrics().spec_decode_draft_tokens;
  counts.accepted = h.engine->Metrics().spec_decode_accepted_tokens;
  return counts;
}

// Over bins of which each is expected 5 times at least, the rest being one; in sigmas above its
// degrees of freedom.
double Sigmas(const std::vector<double>& expected, const std::vector<int>& seen) {
  double chi = 0, rest = 0;
  int bins = 0, rest_seen = 0;
  const auto add = [&](double e, int n) { chi += (n - e) * (n - e) / e, ++bins; };
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] >= 5) {
      add(expected[i], seen[i]);
    } else {
      rest += expected[i], rest_seen += seen[i];
    }
  }
  if (rest >= 5) add(rest, rest_seen);
  const double degrees = bins - 1;
  return (chi - degrees) / std::sqrt(2 * degrees);
}

// The worst of each position's tokens and of the last two together.
double Sigmas(const SamplingParams& params, int seeds, const Counts& counts) {
  const HashModel model{.vocab_size = kVocab};
  std::vector<double> whole(counts.answers.size());
  const std::vector<double> a = Probabilities(model, params, kPrompt);
  for (int32_t i = 0; i < kVocab; ++i) {
    std::vector<int32_t> tokens = kPrompt;
    tokens.push_back(i);
    const std::vector<double> b = Probabilities(model, params, tokens);
    for (int32_t j = 0; j < kVocab; ++j) {
      tokens.resize(kPrompt.size() + 1);
      tokens.push_back(j);
      const std::vector<double> c = Probabilities(model, params, tokens);
      for (int32_t k = 0; k < kVocab; ++k)
        whole[(i * kVocab + j) * kVocab + k] = seeds * a[i] * b[j] * c[k];
    }
  }
  double worst = -1e9;
  const auto marginal = [&](size_t bins, auto bin_of) {
    std::vector<double> expected(bins);
    std::vector<int> seen(bins);
    for (size_t n = 0; n < whole.size(); ++n) {
      expected[bin_of(n)] += whole[n];
      seen[bin_of(n)] += counts.answers[n];
    }
    worst = std::max(worst, Sigmas(expected, seen));
  };
  marginal(kVocab, [](size_t n) { return n / kVocab / kVocab; });
  marginal(kVocab, [](size_t n) { return n / kVocab % kVocab; });
  marginal(kVocab, [](size_t n) { return n % kVocab; });
  marginal(kVocab * kVocab, [](size_t n) { return n % (kVocab * kVocab); });
  return worst;
}

// T8 of spec/engine 5.A, with the limit and the wrong engines of spec/reliability 4.5 that this way
// of verifying can have.
TEST(Distribution, IsThatOfTheModelWhateverIsDrafted) {
  constexpr int kSeeds = 48'000;
  SamplingParams top_k = Plain(), top_p = Plain(), bias = Plain(), cold = Plain();
  top_k.top_k = 7;
  top_p.top_p = 0.8f;
  bias.logit_bias = {{5, 4.0f}, {9, -6.0f}};
  cold.temperature = 1;
  for (const SamplingParams& params : {Plain(), top_k, top_p, bias, cold}) {
    for (const bool drawn : {false, true}) {
      const Counts counts = Ask(params, kSeeds, drawn);
      EXPECT_GT(counts.accepted, counts.drafted / 50);
      EXPECT_GT(counts.drafted, counts.accepted);
      EXPECT_LT(Sigmas(params, kSeeds, counts), 6)
          << (drawn ? "drawn" : "greedy") << ", top_k " << params.top_k << ", top_p "
          << params.top_p << ", temperature " << params.temperature;
    }
  }
}

TEST(Distribution, AWrongEngineExceedsTheLimit) {
  constexpr int kSeeds = 16'000;
  for (const Wrong wrong :
       {Wrong::kForcesDrafts, Wrong::kBonusFromTheHead, Wrong::kColder, Wrong::kOnePosition}) {
    const Counts counts = Ask(Plain(), kSeeds, /*drawn=*/false, wrong);
    EXPECT_GT(Sigmas(Plain(), kSeeds, counts), 12) << static_cast<int>(wrong);
  }
}

}  // namespace
}  // namespace weft::engine
