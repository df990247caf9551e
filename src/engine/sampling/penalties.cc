#include "engine/sampling/penalties.h"

#include <algorithm>

namespace weft::engine {

SeenTokens::SeenTokens(std::span<const int32_t> prompt, int32_t outputs_max) : tracks_(true) {
  ids_.reserve(prompt.size() + outputs_max);
  counts_.reserve(prompt.size() + outputs_max);
  ids_.assign(prompt.begin(), prompt.end());
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  counts_.assign(ids_.size(), 0);
}

void SeenTokens::Add(int32_t output_id) {
  if (!tracks_) return;
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), output_id);
  const auto index = at - ids_.begin();
  if (at == ids_.end() || *at != output_id) {
    ids_.insert(at, output_id);
    counts_.insert(counts_.begin() + index, 0);
  }
  ++counts_[index];
}

void SeenTokens::Fill(SampleRow* row) const {
  row->seen_ids = ids_.data();
  row->seen_counts = counts_.data();
  row->seen = static_cast<int32_t>(ids_.size());
}

}  // namespace weft::engine
