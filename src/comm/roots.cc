#include "comm/roots.h"

namespace weft::comm {

RootLayout MakeRootLayout(int leaves, std::span<const LeafRange> owned) {
  RootLayout out;
  for (size_t member = 0; member < owned.size(); ++member) {
    out.firsts.push_back(out.count());
    for (LeafRange root : MaximalSubtrees(leaves, owned[member])) {
      out.roots.push_back(root);
      out.root_ranks.push_back(static_cast<int32_t>(member));
    }
  }
  out.firsts.push_back(out.count());
  out.merges = RootMerges(leaves, out.roots);
  return out;
}

RootLayout MakeRootLayout(const LeafTable& table, int members) {
  std::vector<LeafRange> owned;
  for (int i = 0; i < members; ++i) owned.push_back(table.OwnedBy(i, members));
  return MakeRootLayout(table.count(), owned);
}

}  // namespace weft::comm
