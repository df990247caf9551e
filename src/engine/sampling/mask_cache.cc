#include "engine/sampling/mask_cache.h"

#include <algorithm>

namespace weft::engine {
namespace {

void SortUnique(std::vector<int32_t>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace

StopMask::StopMask(const SamplingParams& params, std::span<const int32_t> eos_token_ids)
    : min_tokens_(params.min_tokens), stops_(params.stop_token_ids) {
  if (!params.ignore_eos && !eos_token_ids.empty()) {
    eos_ = eos_token_ids.front();
    stops_.insert(stops_.end(), eos_token_ids.begin() + 1, eos_token_ids.end());
  }
  SortUnique(&stops_);
  if (min_tokens_ > 0) {
    banned_ = params.stop_token_ids;
    banned_.insert(banned_.end(), eos_token_ids.begin(), eos_token_ids.end());
    SortUnique(&banned_);
  }
}

StopMask::Verdict StopMask::Judge(int32_t id, int32_t outputs) const {
  if (outputs < min_tokens_) return {};
  if (id == eos_) return {.stop = true};
  if (std::binary_search(stops_.begin(), stops_.end(), id)) return {.stop = true, .stop_token = id};
  return {};
}

}  // namespace weft::engine
