#include "tensor/leaf_table.h"

#include <algorithm>

#include "base/check.h"

namespace weft {
namespace {

// Calls visit(node) for each node of Tree(lo, hi) in post-order.
template <typename Visit>
void PostOrder(int lo, int hi, const Visit& visit) {
  if (hi - lo >= 2) {
    const int middle = TreeSplit(lo, hi);
    PostOrder(lo, middle, visit);
    PostOrder(middle, hi, visit);
  }
  visit(LeafRange{lo, hi});
}

void CollectMaximal(LeafRange node, LeafRange range, std::vector<LeafRange>& out) {
  if (node.end <= range.begin || node.begin >= range.end) return;
  if (range.begin <= node.begin && node.end <= range.end) {
    out.push_back(node);
    return;
  }
  const int middle = TreeSplit(node.begin, node.end);
  CollectMaximal({node.begin, middle}, range, out);
  CollectMaximal({middle, node.end}, range, out);
}

}  // namespace

LeafTable LeafTable::Make(int64_t n, int64_t atom, int leaves_max) {
  WEFT_CHECK(n >= 1 && atom >= 1 && leaves_max >= 1, "n {} atom {} leaves {}", n, atom, leaves_max);
  const int64_t atoms = (n + atom - 1) / atom;
  const int64_t leaves = std::min<int64_t>(atoms, leaves_max);
  LeafTable table;
  table.starts_.resize(leaves + 1);
  for (int64_t i = 0; i <= leaves; ++i) {
    table.starts_[i] = std::min(n, i * atoms / leaves * atom);
  }
  return table;
}

std::vector<LeafRange> MaximalSubtrees(int leaves, LeafRange range) {
  std::vector<LeafRange> out;
  if (!range.empty()) CollectMaximal({0, leaves}, range, out);
  return out;
}

std::vector<uint8_t> TreeMerges(int leaves, LeafRange range) {
  std::vector<uint8_t> merges(range.size(), 0);
  PostOrder(0, leaves, [&](LeafRange node) {
    const bool inside = range.begin <= node.begin && node.end <= range.end;
    if (inside && node.size() >= 2) ++merges[node.end - 1 - range.begin];
  });
  return merges;
}

std::vector<uint8_t> RootMerges(int leaves, std::span<const LeafRange> roots) {
  std::vector<uint8_t> merges(roots.size(), 0);
  for (size_t i = 0; i < roots.size(); ++i) {
    WEFT_CHECK(roots[i].begin == (i == 0 ? 0 : roots[i - 1].end), "roots leave a gap at {}", i);
  }
  WEFT_CHECK(!roots.empty() && roots.back().end == leaves, "roots do not reach leaf {}", leaves);
  PostOrder(0, leaves, [&](LeafRange node) {
    for (size_t i = 0; i < roots.size(); ++i) {
      const bool ends_here = roots[i].end == node.end;
      // A node is added here only if it is no part of a single root.
      if (ends_here && roots[i].begin > node.begin) ++merges[i];
    }
  });
  return merges;
}

}  // namespace weft
