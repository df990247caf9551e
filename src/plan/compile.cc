// graph + bucket + target -> plan: passes, choice of implementations, sharing of steps, waits,
// memory.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "graph/verify.h"
#include "plan/arena_layout.h"
#include "plan/chain_steps.h"
#include "plan/fingerprint.h"
#include "plan/local_rows.h"
#include "plan/plan.h"
#include "plan/post_exchanges.h"
#include "plan/prefetch_weights.h"
#include "plan/verify.h"
#include "plan/wire_bytes.h"

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;

int Plan::waits(Wait kind) const {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [&](const Step& s) { return s.wait == kind; }));
}

bool MeetsInside(const Node& node) { return IsFused(node.op); }

bool PeersReadInside(const Step& step, const Node& node, ValueId id) {
  if (!IsFused(node.op)) return false;
  return MakesRoots(node, id) || (step.phases > 1 && ChainOf(node).exchange.out[0] == id);
}

int64_t LocalWidth(const Graph& g, const Value& value, int rank) {
  if (value.dims.size() < 2) return 1;
  return ElementsOf(g, value, static_cast<int>(value.dims.size()) - 1, rank).size();
}

KLeaves LeavesOf(const Graph& g, ValueId weight, int rank) {
  const Value& w = g.value(weight);
  if (w.dims[1].table < 0) return {nullptr, {0, 1}};
  return {&g.tables[w.dims[1].table].leaves, graph::LeavesOf(g, w, 1, rank)};
}

KLeaves ExpertLeavesOf(const Graph& g, ValueId weight) {
  const int table = g.value(weight).dims[2].table;
  if (table < 0) return {nullptr, {0, 1}};
  return {&g.tables[table].leaves, {0, g.tables[table].leaves.count()}};
}

KLeaves LeavesOf(const Graph& g, const Node& maker, int rank) {
  if (maker.op != Op::kCombine) return LeavesOf(g, maker.in[1], rank);
  const Value& routes = g.value(maker.in[1]);
  return {&g.tables[routes.dims[0].table].leaves, graph::LeavesOf(g, routes, 0, rank)};
}

int RootsOf(const Graph& g, const Node& maker, int rank) {
  const KLeaves k = LeavesOf(g, maker, rank);
  return k.table == nullptr ? 1
                            : static_cast<int>(MaximalSubtrees(k.table->count(), k.range).size());
}

namespace {

int64_t ElementBytes(const Value& v) {
  return v.pairs ? 12 : v.int8_rows ? 1 : FactsOf(v.dtype).block_bytes;
}

// The part of the live rows that one rank has, as a multiple of `whole`; of routes what it has on
// average.
int64_t ShareOf(const LocalRows& rows, int64_t whole) {
  return whole * rows.per_token() * rows.pieces() / rows.chunks();
}

Cost CostOf(const Graph& g, const Node& node, Step* step, int64_t rows_max) {
  Cost cost;
  if (IsFused(node.op)) {
    const graph::FusedChain chain = ChainOf(node);
    for (const Node* link : {&chain.matmul, &chain.exchange, &chain.norm}) {
      if (link->op == Op::kCount) continue;
      const Cost part = CostOf(g, *link, step, rows_max);
      cost.weight_bytes += part.weight_bytes;
      cost.row_bytes += part.row_bytes;
      cost.row_flops += part.row_flops;
      cost.row_wire_bytes += part.row_wire_bytes;
    }
    return cost;
  }
  const int ranks = g.mesh.ranks();
  if (node.op == Op::kMatmul) {
    const LocalRows rows(g, g.value(node.out[0]), 0);
    for (ValueId w : OperandsOf(node).weights) {
      const Value& v = g.value(w);
      int64_t elements = 0;
      for (int r = 0; r < ranks; ++r)
        elements += ElementsOf(g, v, 0, r).size() * ElementsOf(g, v, 1, r).size();
      cost.weight_bytes += BytesOf(v.dtype, elements);
      cost.row_flops += ShareOf(rows, 2 * elements);
    }
  }
  if (node.op == Op::kExpertMatmul) {
    const int64_t per_token = g.value(node.in[0]).dims[0].n;
    for (ValueId w : OperandsOf(node).weights) {
      const Value& v = g.value(w);
      const int64_t elements = v.dims[1].n * v.dims[2].n;  // of one expert
      cost.weight_bytes += std::min(v.dims[0].n, rows_max * per_token) * BytesOf(v.dtype, elements);
      cost.row_flops += 2 * elements * per_token;
    }
  }
  for (const auto& ids : {node.in, node.out}) {
    for (ValueId id : ids) {
      const Value& v = g.value(id);
      if (v.kind == graph::ValueKind::kParam || v.kind == graph::ValueKind::kState ||
          v.dims.size() < 2)
        continue;
      const LocalRows rows(g, v, 0);
      int64_t bytes = 0;
      for (int r = 0; r < ranks; ++r) bytes += LocalWidth(g, v, r) * ElementBytes(v);
      cost.row_bytes += ShareOf(rows, bytes);
    }
  }
  if (IsExchange(node.op)) {
    if (node.op == Op::kAllReduce || node.op == Op::kReduceScatter) {
      const Node& maker = MakerOfRoots(g, node.in[0]);
      for (int r = 0; r < ranks; ++r)
        step->partials = std::max(step->partials, RootsOf(g, maker, r));
    }
    // Of uneven rows the average, rounded up; WireBytes() is exact.
    cost.row_wire_bytes = (DirectWireBytes(g, node, rows_max) + rows_max - 1) / rows_max;
  }
  return cost;
}

}  // namespace

Result<Plan> Compile(const Graph& placed, const Bucket& bucket, const Target& target,
                     const CompileOptions& options) {
  Plan plan;
  plan.bucket = bucket;
  plan.target = target.name();
  plan.costs_hash = target.costs_hash();
  plan.workers_per_rank = target.workers_per_rank();
  plan.shared_memory = options.shared_memory;
  plan.schedule = options.schedule;
  plan.schedule_note = options.schedule_note;
  graph::PassContext context{placed.mesh.ranks(), bucket.rows_max, options.switches,
                             options.shared_memory};
  WEFT_ASSIGN_OR_RETURN(graph::PassRun run, RunPasses(placed, context, options.eager));
  plan.graph = std::move(run.graph);
  plan.passes = std::move(run.reports);
  plan.steps.reserve(plan.graph.nodes.size());
  for (size_t n = 0; n < plan.graph.nodes.size(); ++n) {
    const Node& node = plan.graph.nodes[n];
    Step step;
    step.node = static_cast<int>(n);
    Choice choice = target.Choose(plan.graph, node, bucket);
    if (choice.impl.empty()) {
      std::string why;
      for (const Refused& r : choice.refused)
        why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", r.impl, r.reason);
      return Status::Unsupported("{} at {}: no implementation on {} ({})", NameOf(node.op),
                                 node.layer, target.name(), why);
    }
    step.impl = std::move(choice.impl);
    step.refused = std::move(choice.refused);
    step.phases = choice.phases;
    step.cost = CostOf(plan.graph, node, &step, bucket.rows_max);
    if (choice.row_wire_bytes >= 0) step.cost.row_wire_bytes = choice.row_wire_bytes;
    plan.steps.push_back(std::move(step));
  }
  const int overtook = ChainSteps(plan, options.eager ? 0 : target.each_rows_max(),
                                  !options.eager && options.interleave);
  // V1 and V8 say whether a new order may be.
  if (overtook > 0) WEFT_RETURN_IF_ERROR(graph::Verify(plan.graph).In("interleave_lanes"));
  if (!options.eager && options.post_exchanges) PostExchanges(plan);
  if (!options.eager && options.prefetch_weights) PrefetchWeights(plan);
  LayOutArena(plan);
  WEFT_RETURN_IF_ERROR(VerifyPlan(plan));
  plan.fingerprint = FingerprintOf(plan);
  return plan;
}

}  // namespace weft::plan
