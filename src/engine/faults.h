// Switches that break one rule of the engine each, so that a test can show that it would notice.
// No flag leads here: only tests make an engine with them (engine_impl.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::engine {

struct EngineFaults {
  int prefix_hash_bits = 128;        // fewer: different contents meet under one hash
  bool prefix_trusts_hash = false;   // a hit is not compared with the block's own tokens
  bool stale_state = false;          // a prefix hit does not bring the recurrent state behind it
  bool accepted_off_by_one = false;  // a recurrent state takes in one draft more than was accepted
  // Other guesses than were made: what a request has so far, and its drafts, which may become
  // others or fewer.
  std::function<void(const std::string& id, int32_t outputs, std::vector<int32_t>* drafts)> tamper;
  bool stale_page = false;  // the page table misses the blocks that a sequence grows by
};

}  // namespace weft::engine
