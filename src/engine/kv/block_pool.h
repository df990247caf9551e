// Blocks of the paged KV cache: who holds which, and how often.
//
// A block is a page id of the executor. Page 0 is the zero page and never granted.
// Thread: engine only. Invariant: free + held == total; a block with references is never free.
// Order: free blocks are granted from the head. A block whose content is still findable goes to the
// tail (so the least recently used content is lost first), any other to the head.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::engine {

class BlockPool {
 public:
  // `pages` as in ExecutorLimits: ids 1 .. pages - 1 exist.
  explicit BlockPool(int32_t pages);

  int32_t total() const { return total_; }
  int32_t free() const { return free_; }
  int32_t held() const { return total_ - free_; }
  int32_t references(int32_t block) const { return references_[block]; }

  // The block at the head with one reference; 0 when none is free.
  int32_t Grant();
  // One more reference; takes the block out of the free queue if it was free.
  void Hold(int32_t block);
  // One reference less. At none the block is free: at the tail if `keep` (its content may be hit
  // again), else at the head.
  void Release(int32_t block, bool keep);

  // The free queue, head first; for tests and for people who look for a leak.
  std::vector<int32_t> FreeQueue() const;

 private:
  void Unlink(int32_t block);
  void LinkAfter(int32_t where, int32_t block);

  // Doubly linked through arrays; index 0 (the zero page) is the list's own end, so no branch asks
  // for an empty list.
  std::vector<int32_t> next_;
  std::vector<int32_t> previous_;
  std::vector<int32_t> references_;
  int32_t total_ = 0;
  int32_t free_ = 0;
};

}  // namespace weft::engine
