// Placement by propagation: params stand where their leaf tables cut them, every other value where
// its op's rule puts it, and a change of placement is inserted where an op cannot read what it
// gets.
//   Partial read by finish            -> all_reduce in finish's place (tree, bias, one rounding); what an axis
//                                        that stays whole is reduced over is no Partial
//   Sharded read by a whole-row op    -> all_gather before it (shard_argmax may undo one)
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/meaning.h"
#include "graph/passes/pass.h"
#include "graph/verify.h"

namespace weft::graph {
namespace {

// A param or state is cut on every axis of the mesh by the first dim that has a table; axes cut
// major to minor.
Placements CutByTables(const Graph& g, const Value& value, const Mesh& mesh) {
  Placements on(mesh.axes.size(), Placement::R());
  for (size_t d = 0; d < value.dims.size(); ++d) {
    if (value.dims[d].table < 0 || g.tables[static_cast<size_t>(value.dims[d].table)].whole)
      continue;
    for (size_t a = 0; a < on.size(); ++a)
      on[a] = Placement::S(static_cast<int>(d), static_cast<int>(a));
    break;
  }
  return on;
}

class Inserter {
 public:
  Inserter(const Graph& source, const Mesh& mesh) : g_(source) {
    g_.mesh = mesh;
    nodes_.swap(g_.nodes);
    for (Value& value : g_.values) {
      value.on = value.kind == ValueKind::kParam || value.kind == ValueKind::kState
                     ? CutByTables(g_, value, mesh)
                     : Placements(mesh.axes.size(), Placement::R());
    }
  }

  Result<Graph> Run() {
    for (Node& node : nodes_) {
      for (ValueId& id : node.in) {
        if (auto it = gathered_.find(id); it != gathered_.end() && NeedsWholeRow(node))
          id = it->second;
      }
      if (node.op == Op::kFinish && g_.mesh.ranks() > 1 && AnyPartial(node.in[0]))
        node.op = Op::kAllReduce;
      if (NeedsWholeRow(node) && AnySharded(node.in[0])) Gather(node);
      WEFT_RETURN_IF_ERROR(Place(node));
      g_.nodes.push_back(node);
    }
    return std::move(g_);
  }

 private:
  bool AnySharded(ValueId id) const {
    for (const Placement& p : g_.value(id).on) {
      if (p.sharded()) return true;
    }
    return false;
  }
  bool AnyPartial(ValueId id) const {
    const Placements& on = g_.value(id).on;
    return std::any_of(on.begin(), on.end(), [](const Placement& p) { return p.partial(); });
  }
  static bool NeedsWholeRow(const Node& node) {
    return FactsOf(node.op).rule == PlaceRule::kWholeRow || node.op == Op::kArgmax;
  }

  Status Place(const Node& node) {
    WEFT_ASSIGN_OR_RETURN(auto placed, PlaceOutputs(g_, node));
    for (size_t i = 0; i < placed.size(); ++i) g_.value(node.out[i]).on = placed[i];
    return Status::Ok();
  }

  void Gather(Node& node) {
    const ValueId x = node.in[0];
    const ValueId y = AddLike(g_, x, ".gathered");
    Node gather{Op::kAllGather, {x}, {y}, {}, node.layer};
    int64_t axes = 0;
    for (size_t a = 0; a < g_.mesh.axes.size(); ++a) {
      if (g_.value(x).on[a].sharded()) axes |= int64_t{1} << a;
    }
    gather.Set("axes", axes);
    g_.value(y).on = PlaceOutputs(g_, gather).value()[0];
    g_.nodes.push_back(std::move(gather));
    gathered_[x] = y;
    node.in[0] = y;
  }

  Graph g_;
  std::vector<Node> nodes_;
  std::map<ValueId, ValueId> gathered_;
};

}  // namespace

Result<Graph> InsertCollectives(const Graph& expanded, const Mesh& mesh) {
  WEFT_ASSIGN_OR_RETURN(Graph placed, Inserter(expanded, mesh).Run());
  WEFT_RETURN_IF_ERROR(Verify(placed).In("insert_collectives"));
  WEFT_RETURN_IF_ERROR(SameMeaning(expanded, placed).In("insert_collectives"));
  return placed;
}

}  // namespace weft::graph
