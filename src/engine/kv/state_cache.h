// Which slots keep recurrent states of prefixes, beside the KV blocks of the same prefixes.
//
// A checkpoint is the state behind the last token of one full KV block, and it is known by that
// block: a findable block stands for one prefix exactly (prefix_cache.h), so a checkpoint does too.
// When the block's content goes, the checkpoint goes. Slots are taken from the least recently used
// one. Thread: engine only. Nothing allocates after construction. The copies themselves are the
// executor's (plan::StateCopy), in the order in which they were asked for; a slot that was read by
// one copy may therefore be written by a later one of the same step.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::engine {

class StateCache {
 public:
  // Slots [first, first + count) of the executor's pools.
  StateCache(int32_t pages, int32_t first, int32_t count);

  int32_t slots() const { return static_cast<int32_t>(block_of_.size()); }
  int32_t used() const { return used_; }
  // The slot with the state behind `block`, or 0.
  int32_t Find(int32_t block) const { return slot_of_[block]; }
  // Find() of a block whose checkpoint is used now.
  int32_t Use(int32_t block);
  // A slot for the state behind `block`, which has none. 0 if there are no slots.
  int32_t Grant(int32_t block);
  // The block's content is gone. Nothing if it has no checkpoint.
  void Forget(int32_t block);

 private:
  const int32_t first_;
  std::vector<int32_t> slot_of_;   // [pages] 0: none
  std::vector<int32_t> block_of_;  // [slots] 0: free
  std::vector<uint64_t> used_at_;  // [slots]
  uint64_t now_ = 0;
  int32_t used_ = 0;
};

}  // namespace weft::engine
