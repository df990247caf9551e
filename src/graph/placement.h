// Where a value sits: one placement per axis of the rank mesh (the terms of PyTorch's DTensor).
//
// Communication is nothing but a change of placement: all-reduce takes Partial to Replicated,
// reduce-scatter Partial to Sharded(tokens), all-gather Sharded(d) to Replicated, all-to-all
// Sharded(a) to Sharded(b).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/leaf_table.h"

namespace weft::graph {

struct MeshAxis {
  std::string name;
  int size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// The rank mesh, major axis first: rank = ((c0 * size1) + c1) * size2 + ...
struct Mesh {
  std::vector<MeshAxis> axes;
  int ranks() const {
    int n = 1;
    for (const MeshAxis& axis : axes) n *= axis.size;
    return n;
  }
  // The rank's place along one axis.
  int CoordinateOf(int rank, size_t axis) const {
    for (size_t a = axes.size(); --a > axis;) rank /= axes[a].size;
    return rank % axes[axis].size;
  }
  // The ranks that differ from `rank` along these axes only (a bit mask), ascending.
  std::vector<int> GroupOf(int rank, int64_t axes) const;
  static Mesh Tp(int ranks) { return Mesh{{{"tp", ranks}}}; }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

enum class PlacementKind : uint8_t { kReplicated, kSharded, kPartial };

struct Placement {
  PlacementKind kind = PlacementKind::kReplicated;
  int8_t dim = 0;    // with kSharded
  int8_t order = 0;  // with kSharded: 0 cuts first (major) where several axes cut one dim

  static Placement R() { return {}; }
  static Placement S(int dim, int order = 0) {
    return {PlacementKind::kSharded, static_cast<int8_t>(dim), static_cast<int8_t>(order)};
  }
  static Placement P() { return {PlacementKind::kPartial, 0, 0}; }

  bool replicated() const { return kind == PlacementKind::kReplicated; }
  bool partial() const { return kind == PlacementKind::kPartial; }
  bool sharded() const { return kind == PlacementKind::kSharded; }
  bool sharded_on(int d) const { return sharded() && dim == d; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

using Placements = std::vector<Placement>;  // one per mesh axis

// "R", "P", "S(0)"; several axes are joined by ','.
std::string ToString(const Placements& on);

// How placements cut one dimension: into chunks numbered along `order` (axes, major to minor), of
// which only the axes in `split` separate ranks. After FC2's all-to-all the tokens are cut by (otp,
// odp) and split over odp alone: odp member i holds the chunks {i + j * |odp|}.
struct Cut {
  std::vector<int> order;
  int64_t split = 0;  // bit mask of axes
  int chunks = 1;
  int per_rank = 1;  // chunks that a rank holds
  bool whole() const { return chunks == per_rank; }
  // A rank's chunks stand side by side.
  bool contiguous = true;
};
Cut CutOf(const Mesh& mesh, const Placements& on, int dim);
// The numbers of the chunks that `rank` holds, ascending.
std::vector<int> ChunksOf(const Mesh& mesh, const Cut& cut, int rank);
// Chunk `i` of `chunks` of live rows begins here; chunks differ by one row at most, some may be
// empty.
inline int64_t ChunkBegin(int64_t rows, int i, int chunks) { return rows * i / chunks; }

// A feature axis that ranks may cut, and who owns which of its leaves.
// kv heads follow the query heads that read them: their owners overlap where a kv head serves query
// heads on two ranks (docs/numerics.md 4).
struct AxisTable {
  std::string name;  // "L00.heads"
  LeafTable leaves;
  int follows = -1;          // another table of the graph, or -1
  int64_t follow_width = 0;  // elements of the followed axis per leaf of this one
  bool whole =
      false;  // never cut: every rank has all leaves, and their tree is the one of any deployment
  friend bool operator==(const AxisTable&, const AxisTable&) = default;
};

struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};
// The leaves of tables[table] that place `place` of `places` owns, and the elements that they
// cover.
LeafRange OwnedLeaves(const std::vector<AxisTable>& tables, int table, int place, int places);
ElementRange OwnedElements(const std::vector<AxisTable>& tables, int table, int place, int places);

// An axis without a leaf table (nothing is reduced over it) is cut between blocks of this many
// elements: whole panels of packed weights, whole blocks of quantised rows.
inline constexpr int64_t kEvenBlock = 32;
ElementRange EvenElements(int64_t n, int place, int places);

}  // namespace weft::graph
