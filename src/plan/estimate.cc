#include "plan/estimate.h"

#include <algorithm>

#include "plan/local_rows.h"
#include "plan/wire_bytes.h"

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;

namespace {

double MatmulNs(const Plan& plan, const Node& node, const CostTable& costs, int64_t rows,
                int rank) {
  const Graph& g = plan.graph;
  const int64_t live = LocalRows(g, g.value(node.out[0]), rank).Count(rows);
  double bytes = 0, macs = 0;
  for (ValueId w : OperandsOf(node).weights) {
    const Value& v = g.value(w);
    const int64_t elements = ElementsOf(g, v, 0, rank).size() * ElementsOf(g, v, 1, rank).size();
    bytes += static_cast<double>(BytesOf(v.dtype, elements));
    macs += static_cast<double>(elements * live);
  }
  // Ranks stream beside each other, so one of t has a t-th of the memory's speed.
  const double stream = bytes / 1024 * costs.weight_kib_ns * g.mesh.ranks();
  const bool int8 = g.value(node.in[0]).int8_rows;
  const double multiply =
      macs * (int8 ? costs.int8_mac_ns : costs.bf16_mac_ns) / plan.workers_per_rank;
  return std::max(stream, multiply);
}

// Rows that are read and written once: norms, adds, quantisation, slices.
double WalkNs(const Plan& plan, const Node& node, const CostTable& costs, int64_t rows, int rank,
              bool each) {
  const Graph& g = plan.graph;
  double bytes = 0;
  for (const auto* ids : {&node.in, &node.out}) {
    for (ValueId id : *ids) {
      const Value& v = g.value(id);
      if (v.kind != graph::ValueKind::kTemp || v.dims.size() < 2) continue;
      bytes += static_cast<double>(BytesOfRow(v, LocalWidth(g, v, rank)) *
                                   LocalRows(g, v, rank).Count(rows));
    }
  }
  return bytes / 1024 * costs.walk_kib_ns / (each ? 1 : plan.workers_per_rank);
}

// `node`: the step's, or the exchange of its chain.
double ExchangeNs(const Plan& plan, const Step& step, const Node& node, const CostTable& costs,
                  int64_t rows) {
  const Graph& g = plan.graph;
  const int group = GroupSizeOf(g, node);
  if (group == 1) return 0;
  // Chunks differ by a row at most, so the busiest rank has about its share.
  const int64_t bytes = WireBytes(plan, step, rows) / g.mesh.ranks();
  const bool shared = plan.workers_per_rank > 1 && step.split != Split::kEach;
  const std::string_view method = !IsFused(g.nodes[step.node].op) ? MethodOf(step)
                                  : step.phases > 1               ? "two_shot"
                                                                  : "direct";
  // Nobody measures the dispatch of rows and their combination apart: they read rows out of windows
  // as an all-to-all does.
  const Op like =
      node.op == Op::kDispatchRows || node.op == Op::kCombineRows ? Op::kAllToAll : node.op;
  const auto ns = costs.ExchangeNs(NameOf(like), method, group,
                                   shared ? bytes / plan.workers_per_rank : bytes, step.phases);
  return ns.value_or(0);
}

}  // namespace

double EstimateNs(const Plan& plan, const CostTable& costs, int64_t rows) {
  const Graph& g = plan.graph;
  double total = 0;
  for (const Step& step : plan.steps) {
    const Node& node = g.nodes[step.node];
    if (step.wait == Wait::kRank) total += costs.MeetingNs(plan.workers_per_rank);
    if (IsExchange(node.op) && GroupSizeOf(g, node) > 1) {
      total += ExchangeNs(plan, step, node, costs, rows);
      continue;
    }
    if (IsFused(node.op)) {
      // As its steps: what interleaving saves is not in the table.
      const graph::FusedChain chain = ChainOf(node);
      double slowest = 0;
      for (int rank = 0; rank < g.mesh.ranks(); ++rank) {
        double ns = MatmulNs(plan, chain.matmul, costs, rows, rank);
        if (chain.norm.op != Op::kCount)
          ns += WalkNs(plan, chain.norm, costs, rows, rank, step.split == Split::kEach);
        slowest = std::max(slowest, ns);
      }
      total += slowest + ExchangeNs(plan, step, chain.exchange, costs, rows);
      continue;
    }
    if (node.op == Op::kAttention || node.op == Op::kKvWrite || node.op == Op::kRope ||
        node.op == Op::kExpertMatmul)
      continue;
    double slowest = 0;
    for (int rank = 0; rank < g.mesh.ranks(); ++rank) {
      const double ns = node.op == Op::kMatmul
                            ? MatmulNs(plan, node, costs, rows, rank)
                            : WalkNs(plan, node, costs, rows, rank, step.split == Split::kEach);
      slowest = std::max(slowest, ns);
    }
    total += slowest;
  }
  return total;
}

}  // namespace weft::plan
