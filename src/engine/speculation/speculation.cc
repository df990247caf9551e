#include "engine/speculation/speculation.h"

#include "base/rng.h"

namespace weft::engine {

Status Validate(const SpeculationConfig& c) {
  if (c.method == SpeculationMethod::kNone) return Status::Ok();
  if (c.tokens < 1 || c.tokens > kDraftTokensMax) {
    return Status::Invalid("--speculative-config: num_speculative_tokens is {}; it must be 1 to {}",
                           c.tokens, kDraftTokensMax);
  }
  if (c.method == SpeculationMethod::kNgram && (c.lookup_min < 1 || c.lookup_max < c.lookup_min)) {
    return Status::Invalid(
        "--speculative-config: prompt_lookup_min {} and prompt_lookup_max {}; they must be at "
        "least 1, the first not above the second",
        c.lookup_min, c.lookup_max);
  }
  if (c.drawn && c.method != SpeculationMethod::kMtp) {
    return Status::Invalid(
        "--speculative-config: draft_sample_method 'probabilistic' is for method mtp; what is "
        "looked up has no distribution to draw from");
  }
  if (!c.synthetic.empty() && c.synthetic.size() != static_cast<size_t>(c.tokens)) {
    return Status::Invalid(
        "--speculative-config: {} synthetic_acceptance_rates for num_speculative_tokens {}",
        c.synthetic.size(), c.tokens);
  }
  return Status::Ok();
}

Result<std::vector<double>> ConditionalRates(const std::vector<double>& rates) {
  std::vector<double> out;
  double before = 1;
  for (const double rate : rates) {
    if (!(rate >= 0 && rate <= before)) {
      return Status::Invalid(
          "--speculative-config: synthetic_acceptance_rates has {} behind {}; they must be 0 to 1 "
          "and never rise",
          rate, before);
    }
    out.push_back(before > 0 ? rate / before : 0);
    before = rate;
  }
  return out;
}

bool SyntheticAccepts(const SpeculationConfig& config, uint64_t seed, int32_t position,
                      int32_t index) {
  uint64_t state = seed ^ (static_cast<uint64_t>(position) << 8 | static_cast<uint64_t>(index));
  return static_cast<double>(SplitMix64(&state) >> 11) * 0x1.0p-53 <
         config.synthetic[static_cast<size_t>(index)];
}

}  // namespace weft::engine
