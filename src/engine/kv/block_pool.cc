#include "engine/kv/block_pool.h"

#include "base/check.h"

namespace weft::engine {

BlockPool::BlockPool(int32_t pages)
    : next_(pages), previous_(pages), references_(pages, 0), total_(pages - 1), free_(pages - 1) {
  WEFT_CHECK(pages >= 2, "a pool of {} pages has none to grant", pages);
  for (int32_t i = 0; i < pages; ++i) {
    next_[i] = i + 1 < pages ? i + 1 : 0;
    previous_[i] = i > 0 ? i - 1 : pages - 1;
  }
}

int32_t BlockPool::Grant() {
  const int32_t block = next_[0];
  if (block == 0) return 0;
  Hold(block);
  return block;
}

void BlockPool::Hold(int32_t block) {
  WEFT_CHECK(block > 0 && block <= total_, "block {} is not in 1 .. {}", block, total_);
  if (references_[block]++ == 0) Unlink(block);
}

void BlockPool::Release(int32_t block, bool keep) {
  WEFT_CHECK(block > 0 && block <= total_, "block {} is not in 1 .. {}", block, total_);
  WEFT_CHECK(references_[block] > 0, "block {} is released but nobody holds it", block);
  if (--references_[block] == 0) LinkAfter(keep ? previous_[0] : 0, block);
}

std::vector<int32_t> BlockPool::FreeQueue() const {
  std::vector<int32_t> queue;
  for (int32_t block = next_[0]; block != 0; block = next_[block]) queue.push_back(block);
  return queue;
}

void BlockPool::Unlink(int32_t block) {
  next_[previous_[block]] = next_[block];
  previous_[next_[block]] = previous_[block];
  --free_;
}

void BlockPool::LinkAfter(int32_t where, int32_t block) {
  const int32_t after = next_[where];
  next_[where] = block;
  previous_[block] = where;
  next_[block] = after;
  previous_[after] = block;
  ++free_;
}

}  // namespace weft::engine
