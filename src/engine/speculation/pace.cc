#include "engine/speculation/pace.h"

#include <algorithm>
#include <bit>

namespace weft::engine {
namespace {

constexpr int32_t kProbes = 4;         // steps with a number of drafts before its cost is believed
constexpr double kForgets = 1.0 / 64;  // weight of what is new against what was
constexpr size_t kClasses = 13;        // sequences, in powers of two

}  // namespace

Pace::Pace(const SpeculationConfig& config)
    : most_(config.tokens), automatic_(config.automatic), costs_(kClasses) {
  offered_.fill(1);
  accepted_.fill(1);
}

size_t Pace::ClassOf(int32_t sequences) {
  return std::min<size_t>(std::bit_width(static_cast<uint32_t>(std::max(sequences, 1)) - 1),
                          kClasses - 1);
}

void Pace::Mean::Add(double value) {
  const double weight = std::max(1.0 / ++samples, kForgets);
  seconds += (value - seconds) * weight;
}

Pace::Choice Pace::Choose(int32_t sequences) const {
  if (!automatic_) return {most_, true};
  const auto& costs = costs_[ClassOf(sequences)];
  Choice best{0, true};
  double best_s = 0, tokens = 1, chain = 1;
  for (int32_t k = 0; k <= most_; ++k) {
    if (k > 0) {
      chain *= acceptance(k - 1);
      tokens += chain;
    }
    const auto& [step, draft] = costs[static_cast<size_t>(k)];
    if (step.samples < kProbes || (k > 0 && draft.samples < kProbes)) return {k, false};
    const double per_token_s = (step.seconds + (k == 0 ? 0 : draft.seconds)) / tokens;
    if (k == 0 || per_token_s < best_s) {
      best.drafts = k;
      best_s = per_token_s;
    }
  }
  return best;
}

void Pace::Verified(int32_t drafted, int32_t accepted) {
  // What stands behind a rejected draft was not judged.
  for (int32_t j = 0; j < std::min(drafted, accepted + 1); ++j) {
    double& offered = offered_[static_cast<size_t>(j)];
    double& taken = accepted_[static_cast<size_t>(j)];
    offered += 1 - offered * kForgets;
    taken += (j < accepted ? 1 : 0) - taken * kForgets;
  }
}

void Pace::Stepped(int32_t sequences, int32_t drafts, double seconds) {
  if (drafts <= most_) costs_[ClassOf(sequences)][static_cast<size_t>(drafts)].step.Add(seconds);
}

void Pace::Drafted(int32_t sequences, int32_t drafts, double seconds) {
  if (drafts <= most_) costs_[ClassOf(sequences)][static_cast<size_t>(drafts)].draft.Add(seconds);
}

}  // namespace weft::engine
