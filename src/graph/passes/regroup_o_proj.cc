// regroup_o_proj (FlashComm2): the product behind attention on the mesh tp = otp x odp. An
// all-to-all inside the odp group turns "all tokens, some heads" into "some tokens, more heads", so
// that only the otp group still reduces.
//   p = matmul(x, w); y = all_reduce(p)
//     ->   x' = all_to_all(x, odp); p = matmul(x', w over otp); s = reduce_scatter(p, otp); y = all_gather(s)
// Laws: re-cutting a weight keeps its leaves and their tree; all-to-all is a change of placement.
// Behind sequence_parallel the reduction was a scatter over all ranks and the gather is not needed:
// rank r ends with the same rows.
#include <fmt/format.h>

#include <utility>

#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.of("regroup_o_proj") != Switch::kOn) return "the schedule is not fc2 or fc1+fc2";
  return c.ranks == 1 ? "one rank reduces nothing" : "";
}

// What works on each head's rows by itself.
bool WalksHeads(Op op) {
  return op == Op::kQuantise || op == Op::kSigmoidMul || op == Op::kGatedRmsNorm;
}

// The op that mixes tokens is attention or a recurrence: looking back through what works row by
// row.
bool BehindTokenMixing(const Graph& g, const Uses& uses, ValueId x) {
  int maker = uses.ProducerOf(x);
  while (maker >= 0 && WalksHeads(g.nodes[maker].op)) maker = uses.ProducerOf(g.nodes[maker].in[0]);
  return maker >= 0 && !FactsOf(g.nodes[maker].op).token_wise;
}

int Run(Graph& g, const PassContext&) {
  size_t odp = 0;
  while (odp < g.mesh.axes.size() && g.mesh.axes[odp].name != "odp") ++odp;
  if (odp != 1 || g.mesh.axes.size() != 2) return 0;  // the mesh has no such axes
  const int64_t otp_axes = 1, odp_axes = 2;
  const Uses uses(g);
  std::vector<bool> regroups(g.nodes.size());  // matmuls
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Node& node = g.nodes[n];
    if (node.op != Op::kMatmul || !node.Has("roots")) continue;
    const auto reducers = uses.ReadersOf(node.out[0]);
    if (reducers.size() != 1 || uses.ReadersOf(node.in[1]).size() != 1) continue;
    const Op reducer = g.nodes[reducers[0]].op;
    regroups[n] = (reducer == Op::kAllReduce || reducer == Op::kReduceScatter) &&
                  g.value(node.in[0]).on == CutByAll(g, 1) &&
                  BehindTokenMixing(g, uses, node.in[0]);
  }
  int rewrites = 0;
  std::vector<bool> regrouped(g.values.size());  // roots
  std::vector<Node> old = std::exchange(g.nodes, {});
  for (size_t n = 0; n < old.size(); ++n) {
    Node node = std::move(old[n]);
    if (regroups[n]) {
      const ValueId x = AddLike(g, node.in[0], ".regrouped");
      g.value(x).on = {Placement::S(1, 0), Placement::S(0, 1)};
      Node exchange{Op::kAllToAll, {node.in[0]}, {x}, {}, node.layer};
      exchange.Set("axes", odp_axes);
      exchange.Set("to_dim", int64_t{0});
      g.nodes.push_back(std::move(exchange));
      node.in[0] = x;
      g.value(node.in[1]).on = {Placement::S(1, 0), Placement::R()};
      g.value(node.out[0]).on = {Placement::P(), Placement::S(0, 1)};
      regrouped[node.out[0]] = true;
      ++rewrites;
      g.nodes.push_back(std::move(node));
    } else if (IsExchange(node.op) && static_cast<size_t>(node.in[0]) < regrouped.size() &&
               regrouped[node.in[0]]) {
      const bool whole = node.op == Op::kAllReduce;
      const ValueId y = node.out[0];
      const ValueId rows = whole ? AddLike(g, y, ".rows") : y;
      const std::string layer = node.layer;
      g.value(rows).on = CutByAll(g, 0);
      node.op = Op::kReduceScatter;
      node.Set("axes", otp_axes);
      node.out[0] = rows;
      g.nodes.push_back(std::move(node));
      if (whole) g.nodes.push_back(MoveOnAll(g, Op::kAllGather, rows, y, layer));
    } else {
      g.nodes.push_back(std::move(node));
    }
  }
  return rewrites;
}

}  // namespace

extern const Pass kRegroupOProj;
const Pass kRegroupOProj{
    "regroup_o_proj", Numerics::kExact,
    "o_proj on the mesh otp x odp: an all-to-all before it, reduced over otp alone", Refuse, Run};

}  // namespace weft::graph
