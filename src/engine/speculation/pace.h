// How many drafts pay: for --speculative-config with "num_speculative_tokens": "auto".
//
// A step with k drafts a sequence yields E(k) = 1 + a_1 + a_1 a_2 + ... tokens and takes S(k) to
// verify and D(k) to draft; k is the one with the least (S(k) + D(k)) / E(k). S and D are measured
// for each k and for how many sequences run (in powers of two), the acceptances a_j over all of
// them, the recent past counting most. Without drafts there is no D, so that speculation which does
// not pay costs nothing but the probes. Thread: engine only. Source of E(k): Leviathan, Kalman and
// Matias, "Fast inference from transformers via speculative decoding".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/speculation/speculation.h"

namespace weft::engine {

class Pace {
 public:
  // most: num_speculative_tokens. Not automatic: always that many.
  explicit Pace(const SpeculationConfig& config);

  struct Choice {
    int32_t drafts = 0;     // for each sequence
    bool measured = false;  // all costs are known
    // False where all that was measured speaks against drafting.
    bool pays() const { return drafts > 0 || !measured; }
  };
  // Where `sequences` decode.
  Choice Choose(int32_t sequences) const;
  int32_t Drafts(int32_t sequences) const { return Choose(sequences).drafts; }
  bool Pays(int32_t sequences) const { return Choose(sequences).pays(); }
  // Of one sequence and step.
  void Verified(int32_t drafted, int32_t accepted);
  // A step in which each of `sequences` had `drafts` verified, and nothing else ran; drafting as
  // many for each.
  void Stepped(int32_t sequences, int32_t drafts, double seconds);
  void Drafted(int32_t sequences, int32_t drafts, double seconds);

  // a_(index + 1).
  double acceptance(int32_t index) const {
    return accepted_[static_cast<size_t>(index)] / offered_[static_cast<size_t>(index)];
  }

 private:
  struct Mean {
    int32_t samples = 0;
    double seconds = 0;
    void Add(double seconds);
  };
  struct Cost {
    Mean step, draft;
  };
  static size_t ClassOf(int32_t sequences);

  const int32_t most_;
  const bool automatic_;
  // One imagined success each, so that every draft is tried.
  std::array<double, kDraftTokensMax> offered_, accepted_;
  std::vector<std::array<Cost, kDraftTokensMax + 1>> costs_;
};

}  // namespace weft::engine
