// The ids a request has seen, as its penalties need them: sorted, unique, counted in the output.
//
// Thread: made by the submitting thread, then the engine's. Add() allocates nothing.
// Kept up to date token by token, so a preempted request goes on with the same penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/rows.h"

namespace weft::engine {

class SeenTokens {
 public:
  SeenTokens() = default;  // tracks nothing
  SeenTokens(std::span<const int32_t> prompt, int32_t outputs_max);

  void Add(int32_t output_id);
  void Fill(SampleRow* row) const;
  bool tracks() const { return tracks_; }

 private:
  bool tracks_ = false;
  std::vector<int32_t> ids_;
  std::vector<int32_t> counts_;
};

}  // namespace weft::engine
