// graph + bucket + target -> plan: passes, choice of implementations, sharing of steps, waits,
// memory.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "graph/verify.h"
#include "plan/arena_layout.h"
#include "plan/chain_steps.h"
#include "plan/fingerprint.h"
#include "plan/plan.h"
#include "plan/verify.h"

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

int64_t LocalWidth(const Graph& g, const Value& value, int rank) {
  if (value.dims.size() < 2) return 1;
  const size_t last = value.dims.size() - 1;
  const graph::Dim& dim = value.dims[last];
  bool cut = false;
  for (const graph::Placement& p : value.on) cut = cut || p.sharded_on(static_cast<int>(last));
  if (!cut || dim.table < 0) return dim.n;
  return OwnedElements(g.tables, dim.table, rank, g.mesh.ranks()).size();
}

KLeaves LeavesOf(const Graph& g, ValueId weight, int rank) {
  const Value& w = g.value(weight);
  const graph::Dim& k = w.dims[1];
  if (k.table < 0) return {nullptr, {0, 1}};
  return {&g.tables[k.table].leaves, OwnedLeaves(g.tables, k.table, rank, g.mesh.ranks())};
}

namespace {

int64_t ElementBytes(const Value& v) {
  return v.pairs ? 12 : v.int8_rows ? 1 : FactsOf(v.dtype).block_bytes;
}

int PartialsOf(const Graph& g, const graph::Uses& uses, ValueId roots, int rank) {
  const int producer = uses.ProducerOf(roots);
  WEFT_CHECK(producer >= 0 && g.nodes[producer].op == Op::kMatmul, "{} is no matmul's",
             g.value(roots).name);
  const KLeaves leaves = LeavesOf(g, g.nodes[producer].in[1], rank);
  if (leaves.table == nullptr) return 1;
  return static_cast<int>(MaximalSubtrees(leaves.table->count(), leaves.range).size());
}

Cost CostOf(const Graph& g, const graph::Uses& uses, const Node& node, Step* step) {
  Cost cost;
  const int ranks = g.mesh.ranks();
  if (node.op == Op::kMatmul) {
    for (ValueId w : OperandsOf(node).weights) {
      const Value& v = g.value(w);
      cost.weight_bytes += BytesOf(v.dtype, v.dims[0].n * v.dims[1].n);
      cost.row_flops += 2 * v.dims[0].n * v.dims[1].n;
    }
  }
  for (const auto& ids : {node.in, node.out}) {
    for (ValueId id : ids) {
      const Value& v = g.value(id);
      if (v.kind == graph::ValueKind::kParam || v.kind == graph::ValueKind::kState ||
          v.dims.size() < 2)
        continue;
      for (int r = 0; r < ranks; ++r) cost.row_bytes += LocalWidth(g, v, r) * ElementBytes(v);
    }
  }
  if (IsExchange(node.op)) {
    // Everybody reads what the others hold: fp32 roots, rounded values, or pairs.
    const Value& x = g.value(node.in[0]);
    for (int r = 0; r < ranks; ++r) {
      int64_t held = LocalWidth(g, x, r) * ElementBytes(x);
      if (node.op == Op::kAllReduce || node.op == Op::kReduceScatter) {
        const int partials = PartialsOf(g, uses, node.in[0], r);
        step->partials = std::max(step->partials, partials);
        held *= partials;
      }
      cost.row_wire_bytes += held * (ranks - 1);
    }
  }
  return cost;
}

}  // namespace

Result<Plan> Compile(const Graph& placed, const Bucket& bucket, const Target& target,
                     const CompileOptions& options) {
  Plan plan;
  plan.bucket = bucket;
  plan.target = target.name();
  plan.workers_per_rank = target.workers_per_rank();
  graph::PassContext context{placed.mesh.ranks(), bucket.rows_max, options.switches};
  WEFT_ASSIGN_OR_RETURN(graph::PassRun run, RunPasses(placed, context, options.eager));
  plan.graph = std::move(run.graph);
  plan.passes = std::move(run.reports);
  const graph::Uses uses(plan.graph);
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
    step.cost = CostOf(plan.graph, uses, node, &step);
    if (choice.row_wire_bytes >= 0) step.cost.row_wire_bytes = choice.row_wire_bytes;
    plan.steps.push_back(std::move(step));
  }
  ChainSteps(plan, options.eager ? 0 : target.each_rows_max());
  LayOutArena(plan);
  WEFT_RETURN_IF_ERROR(VerifyPlan(plan));
  plan.fingerprint = FingerprintOf(plan);
  return plan;
}

}  // namespace weft::plan
