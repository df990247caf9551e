// Where a reduction may be split, and in which order its parts are added (docs/numerics.md 4).
//
// An axis of n elements is cut into A = ceil(n / atom) atoms and those into L = min(A, 16) leaves.
// Each leaf is summed by itself; leaves are added by one fixed binary tree, Tree(lo, hi), which
// splits at lo + the largest power of two below hi - lo. The table depends on the tensor alone,
// never on how many ranks there are, and that is why every deployment gives the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

inline constexpr int kLeavesMax = 16;

struct LeafRange {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(LeafRange, LeafRange) = default;
};

class LeafTable {
 public:
  LeafTable() = default;
  // REQUIRES: n >= 1, atom >= 1.
  static LeafTable Make(int64_t n, int64_t atom, int leaves_max = kLeavesMax);
  // One leaf: an axis that is never split.
  static LeafTable Whole(int64_t n) { return Make(n, n); }

  int count() const { return static_cast<int>(starts_.size()) - 1; }
  int64_t size() const { return starts_.back(); }
  // Leaf i covers elements [start(i), start(i + 1)).
  int64_t start(int leaf) const { return starts_[leaf]; }
  int64_t width(int leaf) const { return starts_[leaf + 1] - starts_[leaf]; }
  std::span<const int64_t> starts() const { return starts_; }

  // The leaves that rank r of t owns: floor(r*L/t) .. floor((r+1)*L/t), possibly none.
  LeafRange OwnedBy(int rank, int ranks) const {
    return {static_cast<int>(int64_t{rank} * count() / ranks),
            static_cast<int>(int64_t{rank + 1} * count() / ranks)};
  }

  friend bool operator==(const LeafTable&, const LeafTable&) = default;

 private:
  std::vector<int64_t> starts_{0};
};

// Tree(lo, hi)'s split point. REQUIRES: hi - lo >= 2.
inline int TreeSplit(int lo, int hi) {
  return lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(hi - lo - 1)));
}

// The maximal subtrees of Tree(0, leaves) inside `range`, left to right: what a rank that owns the
// range can sum without its peers. One entry if the range is aligned, else a few.
std::vector<LeafRange> MaximalSubtrees(int leaves, LeafRange range);

// merges[i - range.begin]: how many additions follow once leaf i is summed, when subtotals are kept
// on a stack (post-order walk of the subtrees inside the range). What remains on the stack at the
// end are the roots of MaximalSubtrees, in order.
std::vector<uint8_t> TreeMerges(int leaves, LeafRange range);

// The same for finishing: the operands are the roots of all ranks' maximal subtrees in leaf order
// (`roots` must tile [0, leaves)); ends with one value.
std::vector<uint8_t> RootMerges(int leaves, std::span<const LeafRange> roots);

}  // namespace weft
