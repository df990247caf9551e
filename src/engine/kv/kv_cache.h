// A sequence's blocks: found in the prefix cache, granted, published when full, given back.
// The one place where the pool and the prefix cache change together.
//
// Thread: engine only. Nothing allocates once a BlockTable has its capacity.
// A full block whose content is already held elsewhere is exchanged for that one and freed: equal
// prefixes have equal bits (docs/numerics.md), so the holder cannot tell, and a prefix exists once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/kv/prefix_cache.h"
#include "engine/kv/state_cache.h"

namespace weft::engine {

// The blocks of one sequence, in order of position.
struct BlockTable {
  std::vector<int32_t> blocks;
  std::vector<Hash128Value> hashes;  // of the leading full blocks, made once
  int32_t published = 0;             // leading blocks that are in the prefix cache
  // Changes whenever an entry changes that was there before; appending keeps it. With the size it
  // says exactly what a copy has to rewrite.
  uint64_t generation = 0;
};

struct KvCacheConfig {
  int32_t pages = 0;
  int32_t page_tokens = 0;
  bool prefix_caching = true;
  uint64_t key = 0;
  // Of models with recurrent layers: slots that keep the states of prefixes. Without any there are
  // no hits.
  bool recurrent = false;
  int32_t first_checkpoint = 0;
  int32_t checkpoints = 0;
  EngineFaults faults;
};

class KvCache {
 public:
  explicit KvCache(const KvCacheConfig& config);

  int32_t page_tokens() const { return config_.page_tokens; }
  int32_t BlocksFor(int32_t tokens) const {
    return (tokens + config_.page_tokens - 1) / config_.page_tokens;
  }
  bool prefix_caching() const { return config_.prefix_caching; }
  bool recurrent() const { return config_.recurrent; }
  const BlockPool& pool() const { return pool_; }
  const PrefixCache& prefix_cache() const { return prefix_; }
  double usage() const { return static_cast<double>(pool_.held()) / pool_.total(); }

  // What the prefix cache has of the first `limit` of `tokens`, in full blocks.
  struct Match {
    int32_t blocks = 0;
    int32_t free_blocks = 0;  // of these, the ones that leave the free queue when taken
    int32_t state = 0;        // slot of the recurrent state behind them, if the model has any
    int32_t known = 0;  // blocks that match, of which `blocks` are those with a state behind them
  };
  // REQUIRES: `table` holds no block. The hit stays valid until anything else changes the cache.
  Match Find(std::span<const int32_t> tokens, int32_t limit, const std::string& salt,
             BlockTable* table);
  // Takes the blocks that the last Find() returned.
  void Take(const Match& match, BlockTable* table);

  // Grows the table to hold `tokens` positions. False: not enough free blocks, nothing changed.
  bool Reserve(int32_t tokens, BlockTable* table);
  // The first `computed` of `tokens` are in the table's blocks: full ones become findable.
  void Publish(std::span<const int32_t> tokens, int32_t computed, const std::string& salt,
               BlockTable* table);
  // A slot for the recurrent state behind the first `tokens`, which are published; 0 if there is
  // one already, or no room. REQUIRES: they end with a block.
  int32_t Checkpoint(int32_t tokens, const BlockTable& table);
  const StateCache& states() const { return states_; }
  // Gives everything back, the end of the sequence first, so that it is evicted first.
  void Release(BlockTable* table);
  // As Release, and nothing of it can be hit again: the content is not to be trusted.
  void Discard(BlockTable* table);

 private:
  void ExtendHashes(std::span<const int32_t> tokens, int32_t blocks, const std::string& salt,
                    BlockTable* table) const;
  std::span<const int32_t> BlockTokens(std::span<const int32_t> tokens, int32_t index) const {
    return tokens.subspan(static_cast<size_t>(index) * config_.page_tokens, config_.page_tokens);
  }

  KvCacheConfig config_;
  BlockPool pool_;
  PrefixCache prefix_;
  StateCache states_;
  std::vector<int32_t> found_;  // blocks of the last Find()
};

}  // namespace weft::engine
