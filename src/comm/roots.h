// Which fp32 planes cross between the members of a group that reduces: every member sums the
// maximal subtrees inside its leaves and publishes their roots (docs/numerics.md 6).
// Thread: start-up; immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/leaf_table.h"

namespace weft::comm {

struct RootLayout {
  std::vector<LeafRange> roots;     // of all members, leaf order
  std::vector<int32_t> root_ranks;  // the member that holds it, ascending
  std::vector<uint8_t> merges;      // RootMerges()
  std::vector<int> firsts;          // [members + 1] member i holds roots [firsts[i], firsts[i+1])

  int count() const { return static_cast<int>(roots.size()); }
  int CountOf(int member) const { return firsts[member + 1] - firsts[member]; }
};

// owned: per member, in leaf order; together they tile [0, leaves), some may be empty.
RootLayout MakeRootLayout(int leaves, std::span<const LeafRange> owned);
// Member i owns table.OwnedBy(i, members).
RootLayout MakeRootLayout(const LeafTable& table, int members);

}  // namespace weft::comm
