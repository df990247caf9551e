// How an engine guesses tokens that a step then verifies: the deployment's choice (vLLM's
// --speculative-config).
//
// A step computes a sequence's last token and its drafts, and samples behind each of these rows as
// it would have without drafts: same logits, same parameters, same random numbers by position. A
// draft is accepted if it is what was sampled; the first one that is not is replaced by what was.
// So the output is, bit by bit, that of an engine that drafts nothing, greedy or random; and a
// greedy draft (q is 1 at one token) is accepted as often as by rejection sampling: with
// probability p(draft). Source: Leviathan et al. 2023; docs/decisions/0019.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::engine {

enum class SpeculationMethod : uint8_t { kNone, kMtp, kNgram };

inline constexpr int32_t kDraftTokensMax = 16;

struct SpeculationConfig {
  SpeculationMethod method = SpeculationMethod::kNone;
  int32_t tokens = 0;      // drafts of a sequence and step, at most
  bool automatic = false;  // fewer, or none, where that is faster by what was measured (pace.h)
  // kMtp: a draft of a request that samples is drawn from the draft head's logits as the row that
  // verifies it will be, by the same parameters and the same random number, instead of the
  // likeliest.
  bool drawn = false;
  // kNgram: lengths of the last tokens that are looked for in what came before.
  int32_t lookup_min = 5, lookup_max = 5;
  // Not empty: drafts are accepted by chance instead, draft j with rate [j] given that those before
  // it were. For benches alone: the text means nothing. [tokens]
  std::vector<double> synthetic;
  friend bool operator==(const SpeculationConfig&, const SpeculationConfig&) = default;
};

// Errors: kInvalid naming the key of --speculative-config, its value and the bound.
Status Validate(const SpeculationConfig& config);

// The conditional rates behind unconditional ones, which do not rise: c_j = r_j / r_(j-1).
// Errors: kInvalid naming the rate.
Result<std::vector<double>> ConditionalRates(const std::vector<double>& rates);

// Whether synthetic draft `index` of the token at `position` is accepted.
bool SyntheticAccepts(const SpeculationConfig& config, uint64_t seed, int32_t position,
                      int32_t index);

}  // namespace weft::engine
