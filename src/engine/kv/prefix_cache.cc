#include "engine/kv/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace weft::engine {

PrefixCache::PrefixCache(int32_t pages, int32_t page_tokens, uint64_t key,
                         const EngineFaults& faults)
    : page_tokens_(page_tokens),
      key_(key),
      faults_(faults),
      entries_(pages),
      tokens_(static_cast<size_t>(pages) * page_tokens),
      heads_(std::bit_ceil(static_cast<uint32_t>(pages)) * 2, 0) {}

Hash128Value PrefixCache::Chain(const Hash128Value* before, std::span<const int32_t> tokens,
                                const std::string& salt) const {
  // The key is the engine's own, so a client cannot prepare prompts that share a bucket.
  const Hash128Value start = before == nullptr ? Hash128(salt, key_) : *before;
  Hash128Value hash = Hash128(tokens.data(), tokens.size_bytes(), start.low ^ key_);
  hash.low += std::rotl(start.high, 23);
  hash.high ^= start.high * 0x9e3779b97f4a7c15u;
  if (faults_.prefix_hash_bits < 64) {
    hash.low &= (uint64_t{1} << faults_.prefix_hash_bits) - 1;
    hash.high = 0;
  }
  return hash;
}

int32_t PrefixCache::Find(const Hash128Value& hash, int32_t before, std::span<const int32_t> tokens,
                          const std::string& salt) const {
  for (int32_t block = heads_[hash.low & (heads_.size() - 1)]; block != 0;
       block = entries_[block].next) {
    if (entries_[block].hash != hash) continue;
    if (faults_.prefix_trusts_hash || Same(block, before, tokens, salt)) return block;
  }
  return 0;
}

bool PrefixCache::Same(int32_t block, int32_t before, std::span<const int32_t> tokens,
                       const std::string& salt) const {
  const Entry& entry = entries_[block];
  if (entry.before != before) return false;
  if (before == 0 ? entry.salt != salt : entry.before_generation != entries_[before].generation) {
    return false;
  }
  const auto own = tokens_.begin() + static_cast<ptrdiff_t>(block) * page_tokens_;
  return std::equal(tokens.begin(), tokens.end(), own, own + page_tokens_);
}

void PrefixCache::Insert(int32_t block, const Hash128Value& hash, int32_t before,
                         std::span<const int32_t> tokens, const std::string& salt) {
  Entry& entry = entries_[block];
  WEFT_CHECK(!entry.findable, "block {} enters the prefix cache twice", block);
  WEFT_CHECK(tokens.size() == static_cast<size_t>(page_tokens_), "only full blocks are cached");
  entry.hash = hash;
  entry.before = before;
  entry.before_generation = before == 0 ? 0 : entries_[before].generation;
  entry.findable = true;
  if (before == 0) {
    entry.salt = salt;
  } else {
    entry.salt.clear();
  }
  std::copy(tokens.begin(), tokens.end(), TokensOf(block).begin());
  int32_t& head = heads_[hash.low & (heads_.size() - 1)];
  entry.next = head;
  head = block;
  ++size_;
}

void PrefixCache::Remove(int32_t block) {
  Entry& entry = entries_[block];
  // Also of a block that is not findable: a block after it may have been inserted by a sequence
  // that held this one when its content was discarded.
  ++entry.generation;
  if (!entry.findable) return;
  int32_t* link = &heads_[entry.hash.low & (heads_.size() - 1)];
  while (*link != block) link = &entries_[*link].next;
  *link = entry.next;
  entry.findable = false;
  --size_;
}

}  // namespace weft::engine
