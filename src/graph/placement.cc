#include "graph/placement.h"

#include <fmt/format.h>

#include "base/check.h"

namespace weft::graph {

std::string ToString(const Placements& on) {
  std::string out;
  for (const Placement& p : on) {
    if (!out.empty()) out += ',';
    switch (p.kind) {
      case PlacementKind::kReplicated: out += 'R'; break;
      case PlacementKind::kPartial: out += 'P'; break;
      case PlacementKind::kSharded:
        out += p.order == 0 ? fmt::format("S({})", p.dim) : fmt::format("S({}:{})", p.dim, p.order);
        break;
    }
  }
  return out.empty() ? "R" : out;
}

LeafRange OwnedLeaves(const std::vector<AxisTable>& tables, int table, int rank, int ranks) {
  const AxisTable& axis = tables[table];
  if (axis.follows < 0) return axis.leaves.OwnedBy(rank, ranks);
  const ElementRange read = OwnedElements(tables, axis.follows, rank, ranks);
  if (read.size() == 0) return {0, 0};
  return {static_cast<int>(read.begin / axis.follow_width),
          static_cast<int>((read.end + axis.follow_width - 1) / axis.follow_width)};
}

ElementRange OwnedElements(const std::vector<AxisTable>& tables, int table, int rank, int ranks) {
  WEFT_CHECK(table >= 0 && table < static_cast<int>(tables.size()), "table {}", table);
  const LeafRange leaves = OwnedLeaves(tables, table, rank, ranks);
  const LeafTable& t = tables[table].leaves;
  return {t.start(leaves.begin), t.start(leaves.end)};
}

}  // namespace weft::graph
