// Byte-pair encoding of one word: the pair with the lowest rank merges first, of equal ranks the
// leftmost, until no pair of neighbours has a rank.
// Thread: immutable; Encode() may run on many threads.
// Cost: linear in the word but for merges that come up out of order of position, which cost
// log n; no recursion.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weft::text {

struct BpeMerge {
  int32_t left;
  int32_t right;
  int32_t merged;
};

class BpeMerger {
 public:
  // What a byte without a token of its own becomes.
  static constexpr int32_t kNoToken = -1;

  // `merges` in order of rank; of a pair given twice the later rank counts.
  // byte_ids[b]: the token of byte b or kNoToken, which Encode() leaves out.
  BpeMerger(const std::vector<BpeMerge>& merges, const std::array<int32_t, 256>& byte_ids);

  // Appends the tokens of `word`.  REQUIRES: word.size() < 2^31.
  void Encode(std::string_view word, std::vector<int32_t>& out) const;

 private:
  struct Entry {
    uint64_t pair = kFree;
    uint32_t rank = 0;
    int32_t merged = 0;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};

  const Entry* Find(int32_t left, int32_t right) const;
  void EncodeShort(std::vector<int32_t>& out, size_t first) const;
  template <typename Queue>
  void EncodeLong(std::vector<int32_t>& out, size_t first) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<Entry> table_;  // open addressing, at most half full
  int shift_ = 64;
};

}  // namespace weft::text
