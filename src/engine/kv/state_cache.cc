#include "engine/kv/state_cache.h"

#include <algorithm>

namespace weft::engine {

StateCache::StateCache(int32_t pages, int32_t first, int32_t count)
    : first_(first),
      slot_of_(static_cast<size_t>(pages), 0),
      block_of_(static_cast<size_t>(count), 0),
      used_at_(static_cast<size_t>(count), 0) {}

int32_t StateCache::Use(int32_t block) {
  const int32_t slot = slot_of_[block];
  if (slot != 0) used_at_[slot - first_] = ++now_;
  return slot;
}

int32_t StateCache::Grant(int32_t block) {
  if (block_of_.empty()) return 0;
  const auto index = std::min_element(used_at_.begin(), used_at_.end()) - used_at_.begin();
  if (block_of_[index] != 0) Forget(block_of_[index]);
  ++used_;
  block_of_[index] = block;
  used_at_[index] = ++now_;
  slot_of_[block] = first_ + static_cast<int32_t>(index);
  return slot_of_[block];
}

void StateCache::Forget(int32_t block) {
  const int32_t slot = slot_of_[block];
  if (slot == 0) return;
  slot_of_[block] = 0;
  block_of_[slot - first_] = 0;
  used_at_[slot - first_] = 0;  // the first to be granted
  --used_;
}

}  // namespace weft::engine
