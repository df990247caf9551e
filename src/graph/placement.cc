#include "graph/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft::graph {

std::vector<int> Mesh::GroupOf(int rank, int64_t group_axes) const {
  std::vector<int> group;
  for (int other = 0; other < ranks(); ++other) {
    bool same = true;
    for (size_t a = 0; a < axes.size(); ++a) {
      same =
          same && ((group_axes >> a & 1) != 0 || CoordinateOf(other, a) == CoordinateOf(rank, a));
    }
    if (same) group.push_back(other);
  }
  return group;
}

Cut CutOf(const Mesh& mesh, const Placements& on, int dim) {
  Cut cut;
  std::vector<int> by_order, rest;  // axes at their place in the order, -1: none stands there
  for (size_t a = 0; a < on.size(); ++a) {
    if (!on[a].sharded_on(dim)) {
      rest.push_back(static_cast<int>(a));
      continue;
    }
    const auto at = static_cast<size_t>(on[a].order);
    if (by_order.size() <= at) by_order.resize(at + 1, -1);
    by_order[at] = static_cast<int>(a);
    cut.split |= int64_t{1} << a;
  }
  auto filler = rest.begin();
  for (int axis : by_order) {
    const bool separates = axis >= 0;
    if (!separates && filler == rest.end()) continue;
    cut.order.push_back(separates ? axis : *filler++);
    const int size = mesh.axes[cut.order.back()].size;
    cut.chunks *= size;
    if (!separates) cut.per_rank *= size;
  }
  // Chunks are neighbours if no axis that separates ranks is minor to one that does not.
  bool open = false;
  for (int axis : cut.order) {
    const bool separates = (cut.split >> axis & 1) != 0;
    if (separates && open && mesh.axes[axis].size > 1) cut.contiguous = false;
    open = open || (!separates && mesh.axes[axis].size > 1);
  }
  return cut;
}

std::vector<int> ChunksOf(const Mesh& mesh, const Cut& cut, int rank) {
  std::vector<int> chunks{0};
  for (const int axis : cut.order) {  // major to minor, so that numbers ascend
    const int size = mesh.axes[axis].size;
    if ((cut.split >> axis & 1) != 0) {
      const int own = mesh.CoordinateOf(rank, static_cast<size_t>(axis));
      for (int& chunk : chunks) chunk = chunk * size + own;
      continue;
    }
    std::vector<int> all;
    for (const int chunk : chunks) {
      for (int i = 0; i < size; ++i) all.push_back(chunk * size + i);
    }
    chunks = std::move(all);
  }
  return chunks;
}

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

LeafRange OwnedLeaves(const std::vector<AxisTable>& tables, int table, int place, int places) {
  const AxisTable& axis = tables[table];
  if (axis.follows < 0) return axis.leaves.OwnedBy(place, places);
  const ElementRange read = OwnedElements(tables, axis.follows, place, places);
  if (read.size() == 0) return {0, 0};
  return {static_cast<int>(read.begin / axis.follow_width),
          static_cast<int>((read.end + axis.follow_width - 1) / axis.follow_width)};
}

ElementRange EvenElements(int64_t n, int place, int places) {
  const int64_t blocks = (n + kEvenBlock - 1) / kEvenBlock;
  const auto start = [&](int i) { return std::min(n, blocks * i / places * kEvenBlock); };
  return {start(place), start(place + 1)};
}

ElementRange OwnedElements(const std::vector<AxisTable>& tables, int table, int place, int places) {
  WEFT_CHECK(table >= 0 && table < static_cast<int>(tables.size()), "table {}", table);
  const LeafRange leaves = OwnedLeaves(tables, table, place, places);
  const LeafTable& t = tables[table].leaves;
  return {t.start(leaves.begin), t.start(leaves.end)};
}

}  // namespace weft::graph
