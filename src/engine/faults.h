// Switches that break one rule of the engine each, so that a test can show that it would notice.
// No flag leads here: only tests make an engine with them (engine_impl.h).
#pragma once

namespace weft::engine {

struct EngineFaults {
  int prefix_hash_bits = 128;       // fewer: different contents meet under one hash
  bool prefix_trusts_hash = false;  // a hit is not compared with the block's own tokens
  bool stale_state = false;         // a prefix hit does not bring the recurrent state behind it
  bool stale_page = false;          // the page table misses the blocks that a sequence grows by
};

}  // namespace weft::engine
