// Which full block holds the keys and values of which token prefix.
//
// The index is a chained 128-bit hash, but a hash is never trusted: a block keeps its own token
// ids, its salt and the block before it, and a hit compares all three. By induction over the chain
// a hit is the same prefix exactly, whatever collides. Thread: engine only. Invariant: the block
// before a findable block is findable, or the block is unreachable; a block is removed before its
// page is granted again. Nothing allocates after construction but a salt longer than a std::string
// holds in place. Source: vLLM's prefix caching; CVE-2025-25183 for why the comparison.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "engine/faults.h"

namespace weft::engine {

class PrefixCache {
 public:
  PrefixCache(int32_t pages, int32_t page_tokens, uint64_t key, const EngineFaults& faults);

  // The hash of a full block after `before` (none: the first block, which the salt enters).
  Hash128Value Chain(const Hash128Value* before, std::span<const int32_t> tokens,
                     const std::string& salt) const;

  // The block that holds `tokens` after block `before` (0: at position 0); 0 when there is none.
  int32_t Find(const Hash128Value& hash, int32_t before, std::span<const int32_t> tokens,
               const std::string& salt) const;

  // REQUIRES: Find() gives none for it, and `block` is not findable.
  void Insert(int32_t block, const Hash128Value& hash, int32_t before,
              std::span<const int32_t> tokens, const std::string& salt);
  // The block's content is gone. Blocks after it can no longer be reached. Nothing if not findable.
  void Remove(int32_t block);

  bool Contains(int32_t block) const { return entries_[block].findable; }
  int32_t size() const { return size_; }

 private:
  struct Entry {
    Hash128Value hash;
    int32_t before = 0;
    uint32_t before_generation = 0;
    uint32_t generation = 0;  // counts Remove(): what was inserted "after me" then is not mine now
    int32_t next = 0;         // in its bucket
    bool findable = false;
    std::string salt;  // of first blocks only
  };
  std::span<int32_t> TokensOf(int32_t block) {
    return {tokens_.data() + static_cast<size_t>(block) * page_tokens_,
            static_cast<size_t>(page_tokens_)};
  }
  bool Same(int32_t block, int32_t before, std::span<const int32_t> tokens,
            const std::string& salt) const;

  int32_t page_tokens_;
  uint64_t key_;
  EngineFaults faults_;
  std::vector<Entry> entries_;   // [pages]
  std::vector<int32_t> tokens_;  // [pages, page_tokens]
  std::vector<int32_t> heads_;   // [power of two] first block of a bucket
  int32_t size_ = 0;
};

}  // namespace weft::engine
