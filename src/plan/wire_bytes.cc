#include "plan/wire_bytes.h"

#include <algorithm>

#include "base/check.h"
#include "plan/local_rows.h"

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;

namespace {

int64_t Overlap(const LocalRows& a, const LocalRows& b, int64_t rows) {
  int64_t count = 0;
  for (int i = 0; i < a.pieces(); ++i) {
    for (int j = 0; j < b.pieces(); ++j) {
      const RowRange x = a.piece(i, rows), y = b.piece(j, rows);
      count += std::max<int64_t>(0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
    }
  }
  return count;
}

int64_t Columns(const Graph& g, const Value& from, int peer, const Value& to, int rank) {
  if (from.dims.size() < 2) return 1;
  const graph::ElementRange a = ElementsOf(g, from, 1, peer), b = ElementsOf(g, to, 1, rank);
  return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

// Each rank with experts takes every row of its peers at most, and a token goes to top_k ranks at
// most.
int64_t DispatchedBytesMax(const Graph& g, const Node& node, int64_t rows) {
  const Value &x = g.value(node.in[0]), &routes = g.value(node.in[1]);
  int64_t taken = 0;
  for (int rank = 0; rank < g.mesh.ranks(); ++rank) {
    if (ExpertsOf(g, routes, rank).size() == 0) continue;
    for (int peer : GroupOf(g, node, rank))
      taken += peer == rank ? 0 : LocalRows(g, x, peer).Count(rows);
  }
  return std::min(taken, rows * routes.dims[0].n) * BytesOfRow(x, x.dims[1].n);
}

// Each owner takes a row for every expert of another rank that its tokens can meet.
int64_t CombinedBytesMax(const Graph& g, const Node& node, int64_t rows) {
  const Value &x = g.value(node.in[0]), &routes = g.value(node.in[1]);
  int64_t taken = 0;
  for (int rank = 0; rank < g.mesh.ranks(); ++rank) {
    int64_t elsewhere = 0;
    for (int peer : GroupOf(g, node, rank))
      elsewhere += peer == rank ? 0 : ExpertsOf(g, routes, peer).size();
    taken += LocalRows(g, g.value(node.out[0]), rank).Count(rows) *
             std::min(routes.dims[0].n, elsewhere);
  }
  return taken * BytesOfRow(x, x.dims[1].n);
}

}  // namespace

bool IsUpperBound(const Node& node) {
  return node.op == Op::kDispatchRows || node.op == Op::kCombineRows;
}

const Node& MakerOfRoots(const Graph& g, ValueId roots) {
  const int producer = g.ProducerOf(roots);
  WEFT_CHECK(producer >= 0 && MakesRoots(g.nodes[producer], roots), "'{}' are no roots",
             g.value(roots).name);
  return g.nodes[producer];
}

int64_t DirectWireBytes(const Graph& g, const Node& node, int64_t rows) {
  if (IsFused(node.op)) return DirectWireBytes(g, ChainOf(node).exchange, rows);
  if (!IsExchange(node.op)) return 0;
  if (node.op == Op::kDispatchRows) return DispatchedBytesMax(g, node, rows);
  if (node.op == Op::kCombineRows) return CombinedBytesMax(g, node, rows);
  const Value &x = g.value(node.in[0]), &y = g.value(node.out[0]);
  const bool reduces = node.op == Op::kAllReduce || node.op == Op::kReduceScatter;
  const Node* maker = reduces ? &MakerOfRoots(g, node.in[0]) : nullptr;
  int64_t bytes = 0;
  for (int rank = 0; rank < g.mesh.ranks(); ++rank) {
    const LocalRows mine(g, y, rank);
    for (int peer : GroupOf(g, node, rank)) {
      if (peer == rank) continue;
      if (reduces) {
        bytes += mine.Count(rows) * RootsOf(g, *maker, peer) * y.dims[1].n * 4;
      } else if (node.op == Op::kPairMax) {
        bytes += rows * BytesOfRow(x, 1);
      } else {
        bytes += Overlap(mine, LocalRows(g, x, peer), rows) *
                 BytesOfRow(x, Columns(g, x, peer, y, rank));
      }
    }
  }
  return bytes;
}

int64_t WireBytes(const Plan& plan, const Step& step, int64_t rows) {
  const Node& node = plan.graph.nodes[step.node];
  if (!IsExchange(node.op) && !IsFused(node.op)) return 0;
  const bool direct = IsFused(node.op) ? step.phases == 1 : MethodOf(step) == "direct";
  return direct ? DirectWireBytes(plan.graph, node, rows) : step.cost.row_wire_bytes * rows;
}

}  // namespace weft::plan
