#include "plan/chain_steps.h"

#include <algorithm>
#include <map>
#include <set>

#include "plan/head_split.h"
#include "plan/lanes.h"

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;

namespace {

// Steps that cost less than a barrier for a few rows: a walk over a row.
bool IsSmall(Op op, int32_t rows_max) {
  switch (op) {
    case Op::kRmsNorm:
    case Op::kAddRmsNorm:
    case Op::kAdd:
    case Op::kQuantise:
    case Op::kEmbed:
    case Op::kGatherRows:
    case Op::kFinish:
    case Op::kGateRows:
    case Op::kConcat:
    case Op::kRoute:
    case Op::kGroupRoutes:
    case Op::kDispatch:
    case Op::kDispatchRows:
    case Op::kCombine:
    case Op::kAllReduce:
    // What comes after its product.
    case Op::kMatmulAllReduceNorm: return true;
    // One row would be one worker's work anyhow, and exp costs too much to do more rows twice.
    case Op::kSiluMul:
    case Op::kSigmoidMul:
    case Op::kGatedRmsNorm: return rows_max == 1;
    default: return false;
  }
}

// A value may stand in every worker's own memory only if nobody but small steps, matmuls (which
// read it) and its own worker see it.
bool MayBePrivate(const Graph& g, const graph::Uses& uses, ValueId id) {
  if (std::find(g.outputs.begin(), g.outputs.end(), id) != g.outputs.end()) return false;
  for (int reader : uses.ReadersOf(id)) {
    const Node& node = g.nodes[reader];
    if (IsExchange(node.op) && node.in[0] == id)
      return false;  // what else one reads is a rank's own
    if (node.op == Op::kRope || node.op == Op::kKvWrite || node.op == Op::kAttention) return false;
  }
  return true;
}

}  // namespace

int ChainSteps(Plan& plan, int32_t each_rows_max, bool interleave) {
  const Graph& g = plan.graph;
  plan.layouts.assign(g.values.size(), {});
  const bool chain = plan.workers_per_rank > 1 && plan.bucket.rows_max <= each_rows_max;
  for (Step& step : plan.steps) step.split = Split::kUnits;
  graph::Uses uses(g);
  // What a second phase reads of a peer is no worker's own.
  const auto may_be_each = [&](const Step& step) {
    const Node& node = g.nodes[step.node];
    return chain && IsSmall(node.op, plan.bucket.rows_max) && step.phases == 1 &&
           std::all_of(node.out.begin(), node.out.end(), [&](ValueId id) {
             return (IsFused(node.op) && MakesRoots(node, id)) || MayBePrivate(g, uses, id);
           });
  };
  int overtook = 0;
  if (interleave) {
    Weave weave;
    for (const Step& step : plan.steps) {
      weave.each.push_back(may_be_each(step));
      weave.exchange.push_back(GroupSizeOf(g, g.nodes[step.node]) > 1 &&
                               !IsFused(g.nodes[step.node].op));
    }
    overtook = InterleaveLanes(plan, weave);
    if (overtook > 0) uses = graph::Uses(g);
  }
  if (chain) SplitByHeads(plan, each_rows_max);

  // Made in slices since the last wait of the rank's workers, by whom: the step whose heads are
  // shared out, or -1 for slices that no other step takes likewise.
  std::map<ValueId, int> unshared;
  std::set<ValueId> unmet;  // made since ranks last met
  for (Step& step : plan.steps) {
    const Node& node = g.nodes[step.node];
    const bool heads = step.split == Split::kHeads;
    const bool each = !heads && may_be_each(step);
    if (each) step.split = Split::kEach;
    step.wait = Wait::kNone;
    for (ValueId id : node.in) {
      const auto it = unshared.find(id);
      if (it != unshared.end() && (!heads || it->second != step.heads_of)) step.wait = Wait::kRank;
    }
    // An exchange reads what peers made; that is never covered by a wait inside the rank, but one
    // meeting covers all that was made before it. A fused step waits for its peers by itself,
    // behind its product.
    if (GroupSizeOf(g, node) > 1 && !IsFused(node.op) &&
        (unmet.contains(node.in[0]) || !plan.shared_memory))
      step.wait = Wait::kGroup;
    if (step.wait != Wait::kNone || MeetsInside(node)) unshared.clear();
    if (step.wait == Wait::kGroup || MeetsInside(node)) unmet.clear();
    for (ValueId id : node.out) {
      unmet.insert(id);
      const bool own = each && !(IsFused(node.op) && MakesRoots(node, id));
      if (g.value(id).kind == ValueKind::kTemp) {
        plan.layouts[id].region = own ? Region::kWorker : Region::kRank;
      }
      if (!each && plan.workers_per_rank > 1) unshared[id] = heads ? step.heads_of : -1;
    }
  }
  return overtook;
}

}  // namespace weft::plan
