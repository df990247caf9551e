// Rules:
//   V1 a value is read before it is made      V2 a value has two producers
//   V3 wrong number of inputs or outputs      V4 operands of different shape or dtype
//   V5 operands placed differently            V6 an op may not read this placement
//   V7 a recorded placement is not the rule's V8 a version of a state has two writers
//   V9 intention left after placement, or a placement of the wrong rank
#include "graph/verify.h"

#include <fmt/format.h>

#include <set>


namespace weft::graph {
namespace {

Status Broken(std::string_view rule, const Graph& g, const Node& node, ValueId id,
              std::string_view why) {
  return Status::Internal("{}: {} at {}: value '{}' ({}): {}", rule, NameOf(node.op), node.layer,
                          id == kNoValue ? std::string_view("-") : g.value(id).name,
                          id == kNoValue ? "-" : ToString(g.value(id).on), why);
}

struct Arity {
  int in_min, in_max, out;
};
Arity ArityOf(Op op) {
  switch (op) {
    case Op::kEmbedding: case Op::kEmbed: return {2, 2, 1};
    case Op::kColumnLinear: case Op::kMatmul: return {2, 64, -1};
    case Op::kRowLinear: return {2, 3, 1};
    case Op::kLmHead: return {2, 2, 1};
    case Op::kSelfAttention: return {6, 6, 2};
    case Op::kSwiGlu: case Op::kSiluMul: case Op::kAdd: return {2, 2, 1};
    case Op::kQuantise: return {1, 1, 1};
    case Op::kFinish: case Op::kAllReduce: case Op::kReduceScatter: return {1, 2, 1};
    case Op::kRmsNorm: return {2, 2, 1};
    case Op::kAddRmsNorm: return {3, 3, 2};
    case Op::kRope: return {2, 2, 1};
    case Op::kKvWrite: return {4, 4, 1};
    case Op::kAttention: return {3, 3, 1};
    case Op::kGatherRows: return {2, 2, 1};
    case Op::kArgmax: case Op::kSample: case Op::kHashLogits: return {1, 1, 1};
    case Op::kAllGather: case Op::kAllToAll: case Op::kPairMax: return {1, 1, 1};
    case Op::kCount: break;
  }
  return {0, 0, 0};
}

// The operands whose placement an op's rule looks at (params of norms, positions and the like are
// replicated and not asked).
std::vector<ValueId> PlacedOperands(const Node& node) {
  switch (node.op) {
    case Op::kAdd: case Op::kSiluMul: return {node.in[0], node.in[1]};
    case Op::kAddRmsNorm: return {node.in[0], node.in[1]};
    case Op::kKvWrite: return {node.in[1], node.in[2], node.in[0]};
    case Op::kAttention: return {node.in[0], node.in[1]};
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
    if (rule == PlaceRule::kEmbed) return std::vector<Placement>(1, Placement::R());
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
        if (node_.op == Op::kRmsNorm && node_.Int("groups") > 1 && first.sharded_on(1)) return same(first);
        if (first.partial() || first.sharded_on(1)) return refuse("R or S(0)");
        return same(first);
      case PlaceRule::kHeads:
        if (first.partial()) return refuse("R or S(1)");
        if (first.sharded_on(0) && node_.op != Op::kRope) return refuse("R or S(1)");
        return same(first);
      case PlaceRule::kWholeRow:
        if (!first.replicated()) return refuse("R");
        return same(first);
      case PlaceRule::kFinish:
        if (first.replicated()) return same(first);
        if (!first.partial() || g_.mesh.axes[axis_].size != 1) return refuse("P on axes of one rank");
        return same(Placement::R());
      case PlaceRule::kArgmax:
        if (first.replicated()) return same(first);
        if (!first.sharded_on(1)) return refuse("R or S(1)");
        return same(Placement::P());
      default: break;
    }
    // Exchanges, on the axes that they act on.
    if (((node_.IntOr("axes", -1) >> axis_) & 1) == 0) return same(first);
    switch (rule) {
      case PlaceRule::kAllReduce:
        if (!first.partial()) return refuse("P");
        return same(Placement::R());
      case PlaceRule::kReduceScatter:
        if (!first.partial()) return refuse("P");
        return same(Placement::S(0, static_cast<int>(node_.IntOr("order", 0))));
      case PlaceRule::kAllGather:
        if (!first.sharded()) return refuse("S");
        return same(Placement::R());
      case PlaceRule::kAllToAll: {
        const int to = static_cast<int>(node_.Int("to_dim"));
        if (!first.sharded() || first.sharded_on(to)) return refuse("S on another dim than the target");
        return same(Placement::S(to, static_cast<int>(node_.IntOr("order", 0))));
      }
      default: return Broken("V9", g_, node_, x, "no rule");
    }
  }

 private:
  const Placement& At(ValueId id) const { return g_.value(id).on[axis_]; }

  Result<std::vector<Placement>> Matmul() const {
    const MatmulOperands operands = OperandsOf(node_);
    const Placement x = At(operands.x);
    std::vector<Placement> out;
    for (size_t i = 0; i < operands.weights.size(); ++i) {
      const Placement w = At(operands.weights[i]);
      const ValueId bias = operands.biases[i];
      if (x.replicated() && w.sharded_on(0)) {
        out.push_back(Placement::S(1, w.order));
      } else if (x.sharded_on(1) && w.sharded_on(1)) {
        const bool whole = node_.Has("finish");
        if (whole && g_.mesh.axes[axis_].size != 1) {
          return Broken("V6", g_, node_, operands.x, "a product is finished by one rank of several");
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
      if (bias != kNoValue && out.back().partial()) {
        return Broken("V6", g_, node_, bias, "a bias on a Partial would be added once per rank");
      }
    }
    return out;
  }

  const Graph& g_;
  const Node& node_;
  size_t axis_;
};

Status CheckShapes(const Graph& g, const Node& node) {
  const auto dims = [&](ValueId id) -> const std::vector<Dim>& { return g.value(id).dims; };
  const auto same = [&](ValueId a, ValueId b) -> Status {
    if (dims(a) != dims(b)) return Broken("V4", g, node, b, fmt::format("its shape is not that of '{}'", g.value(a).name));
    return Status::Ok();
  };
  switch (node.op) {
    case Op::kAdd: case Op::kSiluMul:
      WEFT_RETURN_IF_ERROR(same(node.in[0], node.in[1]));
      return same(node.in[0], node.out[0]);
    case Op::kAddRmsNorm:
      WEFT_RETURN_IF_ERROR(same(node.in[0], node.in[1]));
      WEFT_RETURN_IF_ERROR(same(node.in[0], node.out[0]));
      return same(node.in[0], node.out[1]);
    case Op::kRmsNorm: case Op::kRope: case Op::kQuantise: case Op::kFinish: case Op::kAllReduce:
    case Op::kReduceScatter: case Op::kAllGather: case Op::kAllToAll: case Op::kAttention:
    case Op::kPairMax:
      return same(node.in[0], node.out[0]);
    case Op::kMatmul: {
      const MatmulOperands operands = OperandsOf(node);
      for (size_t i = 0; i < operands.weights.size(); ++i) {
        const auto& w = dims(operands.weights[i]);
        if (w.size() != 2 || w[1].n != dims(operands.x)[1].n) {
          return Broken("V4", g, node, operands.weights[i],
                        fmt::format("has {} inputs, x has {}", w.size() == 2 ? w[1].n : -1, dims(operands.x)[1].n));
        }
        if (dims(node.out[i])[1] != w[0]) return Broken("V4", g, node, node.out[i], "outputs are not the weight's rows");
      }
      return Status::Ok();
    }
    default: return Status::Ok();
  }
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
  std::vector<bool> made(g.values.size(), false);
  const Uses uses(g);
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values[i];
    made[i] = v.kind == ValueKind::kInput || v.kind == ValueKind::kParam ||
              (v.kind == ValueKind::kState && uses.ProducerOf(static_cast<ValueId>(i)) < 0);
    if (g.placed() && v.on.size() != g.mesh.axes.size() &&
        (made[i] || uses.ProducerOf(static_cast<ValueId>(i)) >= 0)) {
      return Status::Internal("V9: value '{}' has {} placements on a mesh of {} axes", v.name,
                              v.on.size(), g.mesh.axes.size());
    }
  }
  std::set<ValueId> consumed_states;
  for (const Node& node : g.nodes) {
    const Arity arity = ArityOf(node.op);
    if (static_cast<int>(node.in.size()) < arity.in_min || static_cast<int>(node.in.size()) > arity.in_max ||
        (arity.out >= 0 && static_cast<int>(node.out.size()) != arity.out)) {
      return Broken("V3", g, node, node.out.empty() ? kNoValue : node.out[0],
                    fmt::format("{} inputs, {} outputs", node.in.size(), node.out.size()));
    }
    for (ValueId id : node.in) {
      if (!made[id]) return Broken("V1", g, node, id, "read before it is made");
    }
    if (FactsOf(node.op).effect && node.op == Op::kKvWrite && !consumed_states.insert(node.in[0]).second) {
      return Broken("V8", g, node, node.in[0], "this version has a writer already");
    }
    for (ValueId id : node.out) {
      if (made[id]) return Broken("V2", g, node, id, "made twice");
      made[id] = true;
    }
    WEFT_RETURN_IF_ERROR(CheckShapes(g, node));
    if (!g.placed()) continue;
    WEFT_ASSIGN_OR_RETURN(auto placed, PlaceOutputs(g, node));
    for (size_t i = 0; i < placed.size(); ++i) {
      if (g.value(node.out[i]).on != placed[i]) {
        return Broken("V7", g, node, node.out[i], fmt::format("the rule gives {}", ToString(placed[i])));
      }
    }
  }
  for (ValueId id : g.outputs) {
    if (!made[id]) return Status::Internal("V1: output '{}' is never made", g.value(id).name);
  }
  return Status::Ok();
}

}  // namespace weft::graph
