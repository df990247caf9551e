#include "engine/kv/kv_cache.h"

#include "base/check.h"

namespace weft::engine {

KvCache::KvCache(const KvCacheConfig& config)
    : config_(config),
      pool_(config.pages),
      prefix_(config.pages, config.page_tokens, config.key, config.faults),
      states_(config.pages, config.first_checkpoint, config.checkpoints) {
  found_.reserve(config.pages);
}

KvCache::Match KvCache::Find(std::span<const int32_t> tokens, int32_t limit,
                             const std::string& salt, BlockTable* table) {
  WEFT_CHECK(table->blocks.empty(), "a table with blocks asks for a prefix");
  Match match;
  found_.clear();
  if (!config_.prefix_caching) return match;
  const int32_t full = limit / config_.page_tokens;
  ExtendHashes(tokens, full, salt, table);
  int32_t before = 0;
  while (match.blocks < full) {
    before =
        prefix_.Find(table->hashes[match.blocks], before, BlockTokens(tokens, match.blocks), salt);
    if (before == 0) break;
    found_.push_back(before);
    ++match.blocks;
    if (pool_.references(before) == 0) ++match.free_blocks;
  }
  match.known = match.blocks;
  if (!config_.recurrent) return match;
  // Keys and values behind a state that is gone are of no use.
  while (!found_.empty() && states_.Find(found_.back()) == 0) {
    if (pool_.references(found_.back()) == 0) --match.free_blocks;
    found_.pop_back();
    --match.blocks;
  }
  if (!found_.empty()) match.state = states_.Use(found_.back());
  return match;
}

int32_t KvCache::Checkpoint(int32_t tokens, const BlockTable& table) {
  const int32_t block = table.blocks[tokens / config_.page_tokens - 1];
  if (!prefix_.Contains(block) || states_.Use(block) != 0) return 0;
  return states_.Grant(block);
}

void KvCache::Take(const Match& match, BlockTable* table) {
  WEFT_CHECK(table->blocks.empty() && match.blocks == static_cast<int32_t>(found_.size()),
             "a prefix is taken that was not just found");
  for (int32_t block : found_) {
    pool_.Hold(block);
    table->blocks.push_back(block);
  }
  table->published = match.blocks;
  ++table->generation;
}

bool KvCache::Reserve(int32_t tokens, BlockTable* table) {
  const int32_t missing = BlocksFor(tokens) - static_cast<int32_t>(table->blocks.size());
  if (missing > pool_.free()) return false;
  for (int32_t i = 0; i < missing; ++i) {
    const int32_t block = pool_.Grant();
    prefix_.Remove(block);
    states_.Forget(block);
    table->blocks.push_back(block);
  }
  return true;
}

void KvCache::Publish(std::span<const int32_t> tokens, int32_t computed, const std::string& salt,
                      BlockTable* table) {
  if (!config_.prefix_caching) return;
  const int32_t full = computed / config_.page_tokens;
  if (table->published >= full) return;
  ExtendHashes(tokens, full, salt, table);
  for (int32_t& i = table->published; i < full; ++i) {
    const int32_t before = i == 0 ? 0 : table->blocks[i - 1];
    const int32_t block = table->blocks[i];
    const int32_t known = prefix_.Find(table->hashes[i], before, BlockTokens(tokens, i), salt);
    if (known == 0) {
      prefix_.Insert(block, table->hashes[i], before, BlockTokens(tokens, i), salt);
    } else {
      pool_.Hold(known);
      pool_.Release(block, /*keep=*/false);
      table->blocks[i] = known;
      ++table->generation;
    }
  }
}

void KvCache::Release(BlockTable* table) {
  for (size_t i = table->blocks.size(); i-- > 0;) {
    pool_.Release(table->blocks[i], prefix_.Contains(table->blocks[i]));
  }
  table->blocks.clear();
  table->published = 0;
  ++table->generation;
}

void KvCache::Discard(BlockTable* table) {
  for (int32_t block : table->blocks) {
    prefix_.Remove(block);
    states_.Forget(block);
  }
  Release(table);
}

void KvCache::ExtendHashes(std::span<const int32_t> tokens, int32_t blocks, const std::string& salt,
                           BlockTable* table) const {
  for (auto i = static_cast<int32_t>(table->hashes.size()); i < blocks; ++i) {
    const Hash128Value* before = i == 0 ? nullptr : &table->hashes[i - 1];
    table->hashes.push_back(prefix_.Chain(before, BlockTokens(tokens, i), salt));
  }
}

}  // namespace weft::engine
