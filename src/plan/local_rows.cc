#include "plan/local_rows.h"

namespace weft::plan {

LocalRows::LocalRows(const graph::Graph& g, const graph::Value& v, int rank) {
  if (v.on.empty() || v.dims.empty() || v.dims[0].sym == graph::Sym::kConst) return;
  const graph::Cut cut = CutOf(g.mesh, v.on, 0);
  if (v.dims[0].sym == graph::Sym::kRoutes) {
    routes_ = true;
    per_token_ = v.dims[0].n;
    chunks_ = cut.chunks / cut.per_rank;
    return;
  }
  if (cut.whole()) return;
  chunks_ = cut.chunks;
  mine_ = ChunksOf(g.mesh, cut, rank);
}

int64_t RowCapacity(const graph::Graph& g, graph::ValueId value, int64_t rows_max) {
  return LocalRows(g, g.value(value), 0).Capacity(rows_max);
}

graph::ValueId GroupingOfRoutes(const graph::Graph& g, const graph::Uses& uses,
                                graph::ValueId rows) {
  while (!IsGrouping(g.value(rows))) {
    const graph::Node& maker = g.nodes[static_cast<size_t>(uses.ProducerOf(rows))];
    const bool routed = maker.op == graph::Op::kDispatch || maker.op == graph::Op::kDispatchRows ||
                        maker.op == graph::Op::kExpertMatmul;
    rows = maker.in[routed ? 1 : 0];
  }
  return rows;
}

graph::ElementRange ExpertsOf(const graph::Graph& g, const graph::Value& grouping, int rank) {
  const LeafTable& leaves = g.tables[grouping.dims[0].table].leaves;
  const LeafRange own = graph::LeavesOf(g, grouping, 0, rank);
  return {leaves.start(own.begin), leaves.start(own.end)};
}

GroupingLayout GroupingOf(const graph::Graph& g, const graph::Value& grouping, int64_t rows_max) {
  int64_t experts = 0;
  for (int r = 0; r < g.mesh.ranks(); ++r)
    experts = std::max(experts, ExpertsOf(g, grouping, r).size());
  const int64_t routes = rows_max * grouping.dims[0].n;
  return {0, experts + 1, experts + 1 + routes, experts + 1 + 2 * routes};
}

}  // namespace weft::plan
