// Rules:
//   V1 a value is read before it is made      V2 a value has two producers
//   V3 wrong number of inputs or outputs      V4 operands of different shape or dtype
//   V5 operands placed differently            V6 an op may not read this placement
//   V7 a recorded placement is not the rule's V8 a version of a state has two writers
//   V9 intention left after placement, or a placement of the wrong rank
// V10, the same meaning as before a pass, is meaning.h.
#include "graph/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/verify_shapes.h"

namespace weft::graph {
namespace {

// The operands whose placement an op's rule looks at (params of norms, positions and the like are
// replicated and not asked).
std::vector<ValueId> PlacedOperands(const Node& node) {
  switch (node.op) {
    case Op::kAdd:
    case Op::kSiluMul:
    case Op::kSigmoidMul:
    case Op::kGateRows:
    case Op::kConcat:
    case Op::kGatedRmsNorm: return {node.in[0], node.in[1]};
    case Op::kAddRmsNorm: return {node.in[0], node.in[1]};
    case Op::kKvWrite: return {node.in[1], node.in[2], node.in[0]};
    case Op::kAttention: return {node.in[0], node.in[1]};
    case Op::kCausalConv: return {node.in[1], node.in[0]};
    case Op::kGatedDelta:
      if (node.Has("tiled")) return {node.in[3], node.in[0]};
      return {node.in[1], node.in[2], node.in[3], node.in[0]};
    default: return {node.in[0]};
  }
}

class AxisRules {
 public:
  AxisRules(const Graph& g, const Node& node, size_t axis) : g_(g), node_(node), axis_(axis) {}

  Result<std::vector<Placement>> Run() const {
    const PlaceRule rule = FactsOf(node_.op).rule;
    if (rule == PlaceRule::kIntention) {
      return Broken("V9", g_, node_, node_.out[0], "a word of intention in a placed graph");
    }
    if (rule == PlaceRule::kMatmul) return Matmul();
    if (rule == PlaceRule::kChain) return Chain();
    if (rule == PlaceRule::kDispatch || rule == PlaceRule::kExpertMatmul ||
        rule == PlaceRule::kCombine)
      return Routed();
    if (rule == PlaceRule::kDispatchRows) return DispatchedRows();
    if (rule == PlaceRule::kCombineRows) return CombinedRows();
    if (rule == PlaceRule::kEmbed) {
      return std::vector<Placement>(1, OnAxis(0) ? Placement::S(0, Order()) : Placement::R());
    }
    const std::vector<ValueId> operands = PlacedOperands(node_);
    const Placement first = At(operands[0]);
    for (ValueId id : operands) {
      if (At(id) != first) {
        return Broken("V5", g_, node_, id,
                      fmt::format("stands {}, but '{}' stands {}", ToString({At(id)}),
                                  g_.value(operands[0]).name, ToString({first})));
      }
    }
    const ValueId x = operands[0];
    const size_t outs = node_.out.size();
    const auto same = [&](Placement p) { return std::vector<Placement>(outs, p); };
    const auto refuse = [&](std::string_view wants) {
      return Broken("V6", g_, node_, x, fmt::format("{} wanted", wants));
    };
    switch (rule) {
      case PlaceRule::kElementwise:
        if (first.partial()) return refuse("R or S");
        return same(first);
      case PlaceRule::kTokenwise:
        WEFT_RETURN_IF_ERROR(WholeGain());
        if ((node_.op == Op::kRmsNorm || node_.op == Op::kGatedRmsNorm) && first.sharded_on(1) &&
            CutBetweenGroups())
          return same(first);
        if (first.partial() || first.sharded_on(1)) return refuse("R or S(0)");
        return same(first);
      case PlaceRule::kHeads:
        if (first.partial()) return refuse("R or S(1)");
        if (first.sharded_on(0) && node_.op != Op::kRope) return refuse("R or S(1)");
        WEFT_RETURN_IF_ERROR(HeadParams(first));
        return same(first);
      case PlaceRule::kGroupRoutes:
        if (!first.replicated()) return refuse("R");
        return same(Placement::S(0, static_cast<int>(axis_)));
      case PlaceRule::kWholeRow:
        if (!first.replicated()) return refuse("R");
        return same(first);
      case PlaceRule::kFinish:
        WEFT_RETURN_IF_ERROR(WholeBias());
        if (first.replicated() || first.sharded_on(0)) return same(first);
        if (!first.partial() || g_.mesh.axes[axis_].size != 1)
          return refuse("P on axes of one rank, R or S(0)");
        return same(Placement::R());
      case PlaceRule::kArgmax:
        if (first.replicated()) return same(first);
        if (!first.sharded_on(1)) return refuse("R or S(1)");
        return same(Placement::P());
      default: break;
    }
    // Exchanges and slices, on the axes that they act on.
    if (rule == PlaceRule::kAllReduce || rule == PlaceRule::kReduceScatter)
      WEFT_RETURN_IF_ERROR(WholeBias());
    if (!OnAxis(-1)) return same(first);
    if (!g_.value(x).dims.empty() && g_.value(x).dims[0].sym == Sym::kRoutes)
      return refuse("rows of tokens");
    switch (rule) {
      case PlaceRule::kAllReduce:
        if (!first.partial()) return refuse("P");
        return same(Placement::R());
      case PlaceRule::kReduceScatter:
        if (!first.partial()) return refuse("P");
        return same(Placement::S(0, Order()));
      case PlaceRule::kSliceRows:
        if (!first.replicated()) return refuse("R");
        return same(Placement::S(0, Order()));
      case PlaceRule::kAllGather:
        if (!first.sharded()) return refuse("S");
        return same(Placement::R());
      case PlaceRule::kAllToAll: {
        const int to = static_cast<int>(node_.Int("to_dim"));
        if (!first.sharded() || first.sharded_on(to))
          return refuse("S on another dim than the target");
        return same(Placement::S(to, Order()));
      }
      default: return Broken("V9", g_, node_, x, "no rule");
    }
  }

 private:
  bool OnAxis(int64_t otherwise) const {
    return (node_.IntOr("axes", otherwise) >> axis_ & 1) != 0;
  }
  // Axes cut in the mesh's order unless a node says otherwise.
  int Order() const { return static_cast<int>(node_.IntOr("order", static_cast<int64_t>(axis_))); }

  // A norm per head stands where heads are cut between ranks, never inside one. A single head (the
  // one key head of a multi-query model) is whole on every rank that has it.
  bool CutBetweenGroups() const {
    const Dim& dim = g_.value(node_.in[0]).dims[1];
    const int64_t groups = node_.Int("groups");
    if (dim.table < 0 || groups < 1 || dim.n % groups != 0) return false;
    const std::span<const int64_t> starts = g_.tables[dim.table].leaves.starts();
    return std::all_of(starts.begin(), starts.end(),
                       [&](int64_t at) { return at % (dim.n / groups) == 0; });
  }

  // Whoever finishes a tree adds the whole bias.
  Status WholeBias() const {
    if (node_.in.size() < 2 || At(node_.in[1]).replicated()) return Status::Ok();
    return Broken("V5", g_, node_, node_.in[1], "the bias of a tree is whole");
  }

  Status WholeGain() const {
    if (node_.op == Op::kGateRows || node_.op == Op::kConcat) return Status::Ok();
    const size_t at = node_.op == Op::kAddRmsNorm || node_.op == Op::kGatedRmsNorm ? 2 : 1;
    if (node_.in.size() <= at || At(node_.in[at]).replicated()) return Status::Ok();
    return Broken("V5", g_, node_, node_.in[at], "the gain of a norm is whole");
  }

  const Placement& At(ValueId id) const { return g_.value(id).on[axis_]; }

  // What else the ops of a gated delta net read: a filter for every channel that is here; of the
  // gates all heads, because a rank's part of them would be smaller than a panel of their weight.
  Status HeadParams(const Placement& x) const {
    if (node_.op == Op::kCausalConv) {
      const ValueId w = node_.in[2];
      if (At(w) == (x.sharded() ? Placement::S(0, x.order) : Placement::R())) return Status::Ok();
      return Broken("V5", g_, node_, w, fmt::format("its channels stand {}", ToString({x})));
    }
    if (node_.op != Op::kGatedDelta) return Status::Ok();
    for (size_t i = 4; i < 8; ++i) {
      if (!At(node_.in[i]).replicated())
        return Broken("V5", g_, node_, node_.in[i], "the gates of all heads are whole");
    }
    for (size_t i = 1; i < 3 && node_.Has("tiled"); ++i) {
      if (!At(node_.in[i]).replicated())
        return Broken("V5", g_, node_, node_.in[i], "the keys of tiled heads are whole");
    }
    return Status::Ok();
  }

  // Routes lie where their experts do, tokens and what the router says of them are whole.
  Result<std::vector<Placement>> Routed() const {
    const Placement routes = At(node_.in[1]);
    if (!routes.sharded_on(0)) return Broken("V6", g_, node_, node_.in[1], "S(0) wanted");
    const auto check = [&](ValueId id, const Placement& wants) {
      if (At(id) == wants) return Status::Ok();
      return Broken("V5", g_, node_, id,
                    fmt::format("{} wanted, because the routes stand {}", ToString({wants}),
                                ToString({routes})));
    };
    const bool dispatch = node_.op == Op::kDispatch;
    WEFT_RETURN_IF_ERROR(check(node_.in[0], dispatch ? Placement::R() : routes));
    for (size_t i = 2; i < node_.in.size(); ++i) {
      WEFT_RETURN_IF_ERROR(check(node_.in[i], node_.op == Op::kCombine ? Placement::R() : routes));
    }
    return std::vector<Placement>(node_.out.size(),
                                  node_.op == Op::kCombine ? Placement::P() : routes);
  }

  // Rows stand with their owners, and everybody knows where all of them go.
  Result<std::vector<Placement>> DispatchedRows() const {
    const Placement x = At(node_.in[0]), routes = At(node_.in[1]);
    if (!routes.sharded_on(0)) return Broken("V6", g_, node_, node_.in[1], "S(0) wanted");
    if (!At(node_.in[2]).replicated())
      return Broken("V5", g_, node_, node_.in[2], "R wanted: who needs a row is for all to know");
    const bool crosses = OnAxis(-1);
    if (crosses ? x.sharded_on(0) : x.replicated()) return std::vector<Placement>(1, routes);
    return Broken("V6", g_, node_, node_.in[0],
                  crosses ? "S(0) wanted, the rows of a rank's own tokens" : "R wanted");
  }

  // Routes stand with their experts, weights with the owners of the tokens, and everybody knows who
  // has what.
  Result<std::vector<Placement>> CombinedRows() const {
    const Placement x = At(node_.in[0]), own = Placement::S(0, Order());
    if (!x.sharded_on(0)) return Broken("V6", g_, node_, node_.in[0], "S(0) wanted");
    if (At(node_.in[1]) != x) {
      return Broken("V5", g_, node_, node_.in[1],
                    fmt::format("{} wanted, as the rows stand", ToString({x})));
    }
    if (!At(node_.in[2]).replicated())
      return Broken("V5", g_, node_, node_.in[2], "R wanted: who has a row is for all to know");
    if (!OnAxis(-1))
      return Broken("V6", g_, node_, node_.in[0], "a combination among all ranks wanted");
    if (At(node_.in[3]) != own) {
      return Broken("V5", g_, node_, node_.in[3],
                    fmt::format("{} wanted, the weights of a rank's own tokens", ToString({own})));
    }
    return std::vector<Placement>(1, own);
  }

  Result<std::vector<Placement>> Matmul() const {
    const MatmulOperands operands = OperandsOf(node_);
    const Placement x = At(operands.x);
    std::vector<Placement> out;
    for (size_t i = 0; i < operands.weights.size(); ++i) {
      const Placement w = At(operands.weights[i]);
      const ValueId bias = operands.biases[i];
      if (x.replicated() && w.sharded_on(0)) {
        out.push_back(Placement::S(1, w.order));
      } else if (x.sharded_on(1) && w.sharded_on(1) && x.order == w.order) {
        const bool whole = node_.Has("finish");
        if (whole && g_.mesh.axes[axis_].size != 1) {
          return Broken("V6", g_, node_, operands.x,
                        "a product is finished by one rank of several");
        }
        out.push_back(whole ? Placement::R() : Placement::P());
      } else if ((x.replicated() || x.sharded_on(0)) && w.replicated()) {
        // A whole product of one rank: of a roots matmul it is P on an axis of one rank only.
        out.push_back(x);
      } else {
        return Broken("V6", g_, node_, operands.x,
                      fmt::format("x {} does not meet weight '{}' {}", ToString({x}),
                                  g_.value(operands.weights[i]).name, ToString({w})));
      }
      if (bias == kNoValue) continue;
      if (out.back().partial()) {
        return Broken("V6", g_, node_, bias, "a bias on a Partial would be added once per rank");
      }
      if (At(bias) !=
          (out.back().sharded_on(1) ? Placement::S(0, out.back().order) : Placement::R())) {
        return Broken("V5", g_, node_, bias,
                      fmt::format("its outputs stand {}", ToString({out.back()})));
      }
    }
    return out;
  }

  // The rules of the chain's ops in turn, each on what the one before makes.
  Result<std::vector<Placement>> Chain() const {
    const FusedChain chain = ChainOf(node_);
    WEFT_ASSIGN_OR_RETURN(const auto roots, AxisRules(g_, chain.matmul, axis_).Run());
    if (!roots[0].partial()) return Broken("V6", g_, node_, node_.in[0], "P of the product wanted");
    WEFT_RETURN_IF_ERROR(AxisRules(g_, chain.exchange, axis_).WholeBias());
    const bool norms = chain.norm.op != Op::kCount;
    const Placement y = norms ? Placement::R() : Placement::S(0, Order());
    std::vector<Placement> out(node_.out.size(), y);
    out.back() = roots[0];
    if (!norms) return out;
    WEFT_RETURN_IF_ERROR(AxisRules(g_, chain.norm, axis_).WholeGain());
    if (const ValueId r = chain.norm.in[0]; At(r) != y) {
      return Broken("V5", g_, node_, r,
                    fmt::format("stands {}, but the sum that is added stands {}", ToString({At(r)}),
                                ToString({y})));
    }
    return out;
  }

  const Graph& g_;
  const Node& node_;
  size_t axis_;
};

// Where values that no node makes may stand: live inputs whole, weights and states cut by a leaf
// table, so that the owner of every element is known.
Status CheckSource(const Graph& g, const Value& v) {
  const auto wrong = [&](std::string_view rule, std::string_view why) {
    return Status::Internal("{}: value '{}' ({}): {}", rule, v.name, ToString(v.on), why);
  };
  for (const Dim& d : v.dims) {
    if (d.table < 0) continue;
    if (d.table >= static_cast<int>(g.tables.size()))
      return wrong("V4", fmt::format("there is no table {}", d.table));
    if (d.sym != Sym::kRoutes && g.tables[d.table].leaves.size() != d.n)
      return wrong("V4", fmt::format("an axis of {} is cut by '{}' of {}", d.n,
                                     g.tables[d.table].name, g.tables[d.table].leaves.size()));
  }
  if (!g.placed()) return Status::Ok();
  if (v.on.size() != g.mesh.axes.size())
    return wrong(
        "V9", fmt::format("{} placements on a mesh of {} axes", v.on.size(), g.mesh.axes.size()));
  for (const Placement& p : v.on) {
    if (p.replicated()) continue;
    if (v.kind == ValueKind::kInput) return wrong("V7", "an input of a step is whole");
    if (v.kind == ValueKind::kTemp) continue;
    if (p.partial() || p.dim < 0 || p.dim >= static_cast<int>(v.dims.size()))
      return wrong("V7", "cut where it has no axis");
    // Over a weight's outputs nothing is reduced, so they may be cut between any two blocks.
    const bool outputs = v.kind == ValueKind::kParam && p.dim == 0;
    if (v.dims[p.dim].table < 0 && !outputs) return wrong("V7", "cut where it has no leaf table");
    if (v.dims[p.dim].table >= 0 && g.tables[v.dims[p.dim].table].whole)
      return wrong("V7", "cut where it stays whole");
  }
  return Status::Ok();
}

// Axes that cut one dimension have an order, and features are cut between neighbours: only rows may
// lie in several pieces on a rank.
Status CheckCuts(const Graph& g, const Value& v) {
  for (size_t d = 0; d < v.dims.size(); ++d) {
    int64_t orders = 0;
    for (const Placement& p : v.on) {
      if (!p.sharded_on(static_cast<int>(d))) continue;
      if (p.order < 0 || p.order >= static_cast<int>(v.on.size()) || (orders >> p.order & 1) != 0) {
        return Status::Internal("V6: value '{}' ({}): two axes cut it in one place of the order",
                                v.name, ToString(v.on));
      }
      orders |= int64_t{1} << p.order;
    }
    if (v.dims[d].sym == Sym::kConst && !CutOf(g.mesh, v.on, static_cast<int>(d)).contiguous) {
      return Status::Internal("V6: value '{}' ({}): features are cut by the major axes first",
                              v.name, ToString(v.on));
    }
  }
  return Status::Ok();
}

// Following tables name an earlier table, and a leaf of theirs serves whole elements of it.
Status CheckTables(const Graph& g) {
  for (size_t t = 0; t < g.tables.size(); ++t) {
    const AxisTable& table = g.tables[t];
    if (table.follows < 0) continue;
    if (table.follows >= static_cast<int>(t) || table.follow_width < 1 ||
        table.leaves.count() * table.follow_width != g.tables[table.follows].leaves.size()) {
      return Status::Internal("V4: table '{}' does not serve the one that it follows", table.name);
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<Placements>> PlaceOutputs(const Graph& graph, const Node& node) {
  std::vector<Placements> out(node.out.size());
  for (size_t axis = 0; axis < graph.mesh.axes.size(); ++axis) {
    WEFT_ASSIGN_OR_RETURN(auto placed, AxisRules(graph, node, axis).Run());
    for (size_t i = 0; i < out.size(); ++i) out[i].push_back(placed[i]);
  }
  return out;
}

Status Verify(const Graph& g) {
  WEFT_RETURN_IF_ERROR(CheckTables(g));
  for (const Node& node : g.nodes) WEFT_RETURN_IF_ERROR(CheckArity(g, node));
  const Uses uses(g);
  std::vector<bool> made(g.values.size(), false);
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values[i];
    const bool produced = uses.ProducerOf(static_cast<ValueId>(i)) >= 0;
    made[i] = v.kind == ValueKind::kInput || v.kind == ValueKind::kParam ||
              (v.kind == ValueKind::kState && !produced);
    if (made[i] || produced) WEFT_RETURN_IF_ERROR(CheckSource(g, v));
    if (g.placed() && (made[i] || produced)) WEFT_RETURN_IF_ERROR(CheckCuts(g, v));
  }
  std::vector<bool> overwritten(g.values.size(), false);  // states
  for (const Node& node : g.nodes) {
    for (ValueId id : node.in) {
      if (!made[id]) return Broken("V1", g, node, id, "read before it is made");
      if (overwritten[id]) {
        return Broken("V8", g, node, id,
                      WritesState(node.op) && id == node.in[0] ? "this version has a writer already"
                                                               : "this version is written over");
      }
    }
    if (WritesState(node.op)) overwritten[node.in[0]] = true;
    for (ValueId id : node.out) {
      if (made[id]) return Broken("V2", g, node, id, "made twice");
      made[id] = true;
      const ValueKind kind = g.value(id).kind;
      const bool version = FactsOf(node.op).effect && id == node.out.back();
      if (kind != (version ? ValueKind::kState : ValueKind::kTemp)) {
        return Broken("V8", g, node, id, "an effect makes a state, everything else makes values");
      }
    }
    WEFT_RETURN_IF_ERROR(CheckShapes(g, node));
    WEFT_RETURN_IF_ERROR(CheckTypes(g, node));
    if (!g.placed()) continue;
    WEFT_ASSIGN_OR_RETURN(auto placed, PlaceOutputs(g, node));
    for (size_t i = 0; i < placed.size(); ++i) {
      if (g.value(node.out[i]).on != placed[i]) {
        return Broken("V7", g, node, node.out[i],
                      fmt::format("the rule gives {}", ToString(placed[i])));
      }
    }
  }
  for (ValueId id : g.outputs) {
    if (id < 0 || id >= static_cast<ValueId>(g.values.size()))
      return Status::Internal("V1: there is no output {}", id);
    const Value& v = g.value(id);
    if (!made[id]) return Status::Internal("V1: output '{}' is never made", v.name);
    for (const Placement& p : v.on) {
      if (!p.replicated())
        return Status::Internal("V6: output '{}' ({}): an output leaves the ranks whole", v.name,
                                ToString(v.on));
    }
  }
  return Status::Ok();
}

}  // namespace weft::graph
