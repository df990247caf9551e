#include "plan/chain_steps.h"

#include <algorithm>
#include <set>

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;

namespace {

// Steps that cost less than a barrier for a few rows: a walk over a row.
bool IsSmall(Op op) {
  switch (op) {
    case Op::kRmsNorm: case Op::kAddRmsNorm: case Op::kAdd: case Op::kQuantise: case Op::kEmbed:
    case Op::kGatherRows: case Op::kFinish: case Op::kAllReduce:
      return true;
    default:
      return false;
  }
}

// A value may stand in every worker's own memory only if nobody but small steps, matmuls (which
// read it) and its own worker see it.
bool MayBePrivate(const Graph& g, const graph::Uses& uses, ValueId id) {
  if (std::find(g.outputs.begin(), g.outputs.end(), id) != g.outputs.end()) return false;
  for (int reader : uses.ReadersOf(id)) {
    const Node& node = g.nodes[reader];
    if (IsExchange(node.op) && node.op != Op::kAllReduce) return false;
    if (node.op == Op::kRope || node.op == Op::kKvWrite || node.op == Op::kAttention) return false;
  }
  return true;
}

}  // namespace

void ChainSteps(Plan& plan, int32_t each_rows_max) {
  const Graph& g = plan.graph;
  const graph::Uses uses(g);
  plan.layouts.assign(g.values.size(), {});
  const bool chain = plan.workers_per_rank > 1 && plan.bucket.rows_max <= each_rows_max;

  std::set<ValueId> unshared;  // made in slices since the last wait of the rank's workers
  for (Step& step : plan.steps) {
    const Node& node = g.nodes[step.node];
    // What a second phase reads of a peer is no worker's own.
    const bool each = chain && IsSmall(node.op) && step.phases == 1 &&
                      std::all_of(node.out.begin(), node.out.end(), [&](ValueId id) { return MayBePrivate(g, uses, id); });
    step.split = each ? Split::kEach : Split::kUnits;
    step.wait = Wait::kNone;
    for (ValueId id : node.in) {
      if (unshared.count(id) > 0) step.wait = Wait::kRank;
    }
    // An exchange reads what peers made; that is never covered by a wait inside the rank.
    if (IsExchange(node.op) && g.mesh.ranks() > 1) step.wait = Wait::kGroup;
    if (step.wait != Wait::kNone) unshared.clear();
    for (ValueId id : node.out) {
      if (g.value(id).kind == ValueKind::kTemp) {
        plan.layouts[id].region = each ? Region::kWorker : Region::kRank;
      }
      if (!each && plan.workers_per_rank > 1) unshared.insert(id);
    }
  }
}

}  // namespace weft::plan
