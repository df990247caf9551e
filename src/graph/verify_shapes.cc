#include "graph/verify_shapes.h"

#include <fmt/format.h>

#include <bit>

namespace weft::graph {
namespace {

struct Arity {
  int in_min, in_max, out;
};
Arity ArityOf(Op op) {
  switch (op) {
    case Op::kEmbedding:
    case Op::kEmbed: return {2, 2, 1};
    case Op::kColumnLinear:
    case Op::kMatmul: return {2, 64, -1};
    case Op::kRowLinear: return {2, 3, 1};
    case Op::kLmHead: return {2, 2, 1};
    case Op::kSelfAttention: return {6, 6, 2};
    case Op::kExperts: return {5, 6, 1};
    case Op::kSwiGlu:
    case Op::kSiluMul:
    case Op::kSigmoidMul:
    case Op::kGateRows:
    case Op::kConcat:
    case Op::kAdd: return {2, 2, 1};
    case Op::kRoute: return {1, 2, 2};
    case Op::kGroupRoutes: return {1, 1, 1};
    case Op::kDispatch: return {2, 2, 1};
    case Op::kExpertMatmul: return {3, 64, -1};
    case Op::kCombine: return {4, 4, 1};
    case Op::kCausalConv: return {4, 4, 2};
    case Op::kGatedDelta: return {9, 9, 2};
    case Op::kGatedRmsNorm: return {3, 3, 1};
    case Op::kQuantise: return {1, 1, 1};
    case Op::kFinish:
    case Op::kAllReduce:
    case Op::kReduceScatter: return {1, 2, 1};
    case Op::kRmsNorm: return {2, 2, 1};
    case Op::kAddRmsNorm: return {3, 3, 2};
    case Op::kRope: return {2, 2, 1};
    case Op::kKvWrite: return {4, 4, 1};
    case Op::kAttention: return {3, 3, 1};
    case Op::kGatherRows: return {2, 2, 1};
    case Op::kArgmax:
    case Op::kSample:
    case Op::kHashLogits: return {1, 1, 1};
    case Op::kSliceRows:
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kPairMax: return {1, 1, 1};
    case Op::kDispatchRows: return {3, 3, 1};
    case Op::kCombineRows: return {4, 4, 1};
    case Op::kMatmulReduceScatter: return {2, 3, 2};
    case Op::kMatmulAllReduceNorm: return {4, 5, 4};
    case Op::kCount: break;
  }
  return {0, 0, 0};
}

bool Moves(Op op) {
  return op == Op::kSliceRows || op == Op::kAllGather || op == Op::kAllToAll ||
         op == Op::kDispatch || op == Op::kDispatchRows;
}

bool IsLinear(Op op) {
  return op == Op::kColumnLinear || op == Op::kRowLinear || op == Op::kLmHead || op == Op::kMatmul;
}

// The attributes that an op's rule, cost and binding read.
Status CheckAttrs(const Graph& g, const Node& node) {
  const auto wants_int = [&](std::string_view key) -> Status {
    for (const Attr& a : node.attrs) {
      if (a.key == key && std::holds_alternative<int64_t>(a.value) &&
          std::get<int64_t>(a.value) > 0)
        return Status::Ok();
    }
    return Broken("V3", g, node, node.out[0],
                  fmt::format("attribute '{}' must be an integer above 0", key));
  };
  const auto wants_real = [&](std::string_view key) -> Status {
    for (const Attr& a : node.attrs) {
      if (a.key == key && std::holds_alternative<double>(a.value)) return Status::Ok();
    }
    return Broken("V3", g, node, node.out[0],
                  fmt::format("attribute '{}' must be a real number", key));
  };
  switch (node.op) {
    case Op::kRmsNorm:
    case Op::kAddRmsNorm:
    case Op::kGatedRmsNorm:
    case Op::kMatmulAllReduceNorm:
      WEFT_RETURN_IF_ERROR(wants_real("eps"));
      for (const char* key : {"groups", "width", "leaf_atom"}) WEFT_RETURN_IF_ERROR(wants_int(key));
      return Status::Ok();
    case Op::kRope: WEFT_RETURN_IF_ERROR(wants_int("head_dim")); return wants_int("rot");
    case Op::kExperts:
    case Op::kRoute: WEFT_RETURN_IF_ERROR(wants_int("top_k")); return wants_real("scale");
    case Op::kGatedDelta: WEFT_RETURN_IF_ERROR(wants_int("key_dim")); return wants_int("value_dim");
    case Op::kExpertMatmul: {
      WEFT_RETURN_IF_ERROR(wants_int("weights"));
      const auto n = static_cast<size_t>(node.Int("weights"));
      if (n == node.out.size() && n + 2 == node.in.size()) return Status::Ok();
      return Broken(
          "V3", g, node, node.out[0],
          fmt::format("{} inputs, {} outputs for {} weights", node.in.size(), node.out.size(), n));
    }
    case Op::kSelfAttention:
    case Op::kAttention:
    case Op::kKvWrite:
      WEFT_RETURN_IF_ERROR(wants_int("head_dim"));
      WEFT_RETURN_IF_ERROR(wants_int("group"));
      return wants_real("scale");
    case Op::kAllToAll:
      for (const Attr& a : node.attrs) {
        if (a.key == "to_dim" && std::holds_alternative<int64_t>(a.value)) return Status::Ok();
      }
      return Broken("V3", g, node, node.out[0], "attribute 'to_dim' must be an integer");
    default: return Status::Ok();
  }
}

class Shapes {
 public:
  Shapes(const Graph& g, const Node& node) : g_(g), node_(node) {}

  Status Check() const {
    const auto& in = node_.in;
    const auto& out = node_.out;
    switch (node_.op) {
      case Op::kAdd:
      case Op::kSiluMul:
      case Op::kSigmoidMul:
      case Op::kSwiGlu: WEFT_RETURN_IF_ERROR(Same(in[0], in[1])); return Same(in[0], out[0]);
      case Op::kAddRmsNorm:
        WEFT_RETURN_IF_ERROR(Same(in[0], in[1]));
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        WEFT_RETURN_IF_ERROR(Same(in[0], out[1]));
        return Norm(in[2]);
      case Op::kRmsNorm: WEFT_RETURN_IF_ERROR(Same(in[0], out[0])); return Norm(in[1]);
      case Op::kGatedRmsNorm:
        WEFT_RETURN_IF_ERROR(Same(in[0], in[1]));
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        return Norm(in[2]);
      case Op::kGateRows:
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        return Is(in[1], {Dims(in[0])[0], Dim::C(1)});
      case Op::kConcat: {
        const auto &a = Dims(in[0]), &b = Dims(in[1]);
        if (a.size() != 2 || b.size() != 2 || a[0] != b[0] || a[1].table >= 0 || b[1].table >= 0)
          return Wrong(in[1], "whole rows, as many as the other's");
        return Is(out[0], {a[0], Dim::C(a[1].n + b[1].n)});
      }
      case Op::kExperts:
      case Op::kRoute:
      case Op::kGroupRoutes:
      case Op::kDispatch:
      case Op::kDispatchRows:
      case Op::kExpertMatmul:
      case Op::kCombine:
      case Op::kCombineRows: return Experts();
      case Op::kCausalConv: {
        WEFT_RETURN_IF_ERROR(Same(in[1], out[0]));
        WEFT_RETURN_IF_ERROR(Same(in[0], out[1]));
        const auto &state = Dims(in[0]), &x = Dims(in[1]), &w = Dims(in[2]);
        if (x.size() != 2 || state.size() != 2 || state[1] != x[1])
          return Wrong(in[0], "a window has not the channels of x");
        if (w.size() != 2 || w[0] != x[1] || w[1].n != state[0].n + 1)
          return Wrong(in[2], "a filter of one tap more than the window for each channel");
        return Status::Ok();
      }
      case Op::kGatedDelta: return GatedDelta();
      case Op::kRope:
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        WEFT_RETURN_IF_ERROR(Heads(in[0]));
        return Rows(in[0], in[1]);
      case Op::kAttention:
        WEFT_RETURN_IF_ERROR(Heads(in[0]));
        WEFT_RETURN_IF_ERROR(Heads(in[1]));
        return Same(in[0], out[0]);
      case Op::kKvWrite:
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        WEFT_RETURN_IF_ERROR(Same(in[1], in[2]));
        WEFT_RETURN_IF_ERROR(Rows(in[1], in[3]));
        if (Dims(in[0]).size() != 2 || Dims(in[0])[1] != Dims(in[1])[1])
          return Wrong(in[0], "a key's width is not the cache's");
        return Heads(in[1]);
      case Op::kFinish:
      case Op::kAllReduce:
      case Op::kReduceScatter:
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        return in.size() == 2 ? Bias(in[1], Dims(out[0])[1]) : Status::Ok();
      case Op::kQuantise:
      case Op::kSliceRows:
      case Op::kAllGather:
      case Op::kAllToAll:
      case Op::kPairMax: return Same(in[0], out[0]);
      case Op::kEmbedding:
      case Op::kEmbed:
        if (Dims(in[1]).size() != 2) return Wrong(in[1], "a table is [V,H]");
        return Is(out[0], {Dims(in[0])[0], Dims(in[1])[1]});
      case Op::kGatherRows:
        if (Dims(in[0]).size() != 2) return Wrong(in[0], "rows are picked from [T,H]");
        return Is(out[0], {Dims(in[1])[0], Dims(in[0])[1]});
      case Op::kArgmax:
      case Op::kSample:
      case Op::kHashLogits:
        if (Dims(in[0]).size() != 2) return Wrong(in[0], "logits are [R,V]");
        return Is(out[0], {Dims(in[0])[0]});
      case Op::kColumnLinear:
      case Op::kRowLinear:
      case Op::kLmHead:
      case Op::kMatmul: return Linear();
      default: return Status::Ok();
    }
  }

 private:
  const std::vector<Dim>& Dims(ValueId id) const { return g_.value(id).dims; }
  Status Wrong(ValueId id, std::string_view why) const { return Broken("V4", g_, node_, id, why); }
  Status Same(ValueId a, ValueId b) const {
    if (Dims(a) == Dims(b)) return Status::Ok();
    return Wrong(b, fmt::format("its shape is not that of '{}'", g_.value(a).name));
  }
  Status Is(ValueId id, const std::vector<Dim>& dims) const {
    return Dims(id) == dims ? Status::Ok() : Wrong(id, "its shape is not what the operands give");
  }
  Status Rows(ValueId x, ValueId per_row) const {
    if (Dims(per_row).size() == 1 && Dims(per_row)[0] == Dims(x)[0]) return Status::Ok();
    return Wrong(per_row, "not one a row");
  }
  Status Norm(ValueId gain) const {
    const int64_t width = node_.Int("width"), groups = node_.Int("groups");
    if (Dims(gain).size() != 1 || Dims(gain)[0].n != width)
      return Wrong(gain, fmt::format("a gain of {} wanted", width));
    if (Dims(node_.in[0]).size() != 2 || Dims(node_.in[0])[1].n != width * groups) {
      return Wrong(node_.in[0], fmt::format("a row is {} groups of {}", groups, width));
    }
    return Status::Ok();
  }
  Status Heads(ValueId x) const {
    const int64_t head_dim = node_.Int("head_dim");
    if (Dims(x).size() == 2 && Dims(x)[1].n % head_dim == 0) return Status::Ok();
    return Wrong(x, fmt::format("not whole heads of {}", head_dim));
  }
  Status GatedDelta() const {
    const auto &in = node_.in, &out = node_.out;
    const int64_t key_dim = node_.Int("key_dim"), value_dim = node_.Int("value_dim");
    WEFT_RETURN_IF_ERROR(Same(in[1], in[2]));
    WEFT_RETURN_IF_ERROR(Same(in[3], out[0]));
    WEFT_RETURN_IF_ERROR(Same(in[0], out[1]));
    const auto &q = Dims(in[1]), &v = Dims(in[3]);
    if (q.size() != 2 || q[1].n % key_dim != 0)
      return Wrong(in[1], fmt::format("not whole heads of {}", key_dim));
    if (v.size() != 2 || v[1].n % value_dim != 0 || v[0] != q[0])
      return Wrong(in[3], fmt::format("not whole heads of {}", value_dim));
    const int64_t heads = v[1].n / value_dim;
    if (heads % (q[1].n / key_dim) != 0)
      return Wrong(in[3], "value heads do not share the key heads evenly");
    WEFT_RETURN_IF_ERROR(Is(in[0], {Dim::C(key_dim), v[1]}));
    for (size_t i : {4, 5}) WEFT_RETURN_IF_ERROR(Is(in[i], {v[0], Dim::C(heads)}));
    for (size_t i : {6, 7}) WEFT_RETURN_IF_ERROR(Is(in[i], {Dim::C(heads)}));
    return Status::Ok();
  }
  // Of the chain from the router's logits to the roots of the experts' tree.
  Status Experts() const {
    const auto &in = node_.in, &out = node_.out;
    const auto &x = Dims(in[0]), &y = Dims(out[0]);
    if (x.size() != 2) return Wrong(in[0], "a row has one axis");
    const auto routes_of = [&](ValueId groups, const Dim& rows) {
      const auto& d = Dims(groups);
      return d.size() == 1 && d[0].sym == Sym::kRoutes && d[0] == rows;
    };
    switch (node_.op) {
      case Op::kExperts: {
        const auto &logits = Dims(in[1]), &gate = Dims(in[2]), &down = Dims(in[4]);
        WEFT_RETURN_IF_ERROR(Same(in[0], out[0]));
        if (logits.size() != 2 || logits[0] != x[0]) return Wrong(in[1], "logits are [T,E]");
        if (gate.size() != 3 || gate[0].table < 0 || gate[0].n != logits[1].n || gate[2] != x[1])
          return Wrong(in[2], "a weight is [E,I,H], E with leaves");
        WEFT_RETURN_IF_ERROR(Same(in[2], in[3]));
        if (down != std::vector<Dim>{gate[0], x[1], gate[1]})
          return Wrong(in[4], "the weight is [E,H,I]");
        return in.size() == 6 ? Bias(in[5], Dim::C(logits[1].n)) : Status::Ok();
      }
      case Op::kRoute:
        if (node_.Int("top_k") > x[1].n)
          return Wrong(in[0], fmt::format("{} of {} experts", node_.Int("top_k"), x[1].n));
        for (ValueId id : out) WEFT_RETURN_IF_ERROR(Is(id, {x[0], Dim::C(node_.Int("top_k"))}));
        return in.size() == 2 ? Bias(in[1], Dim::C(x[1].n)) : Status::Ok();
      case Op::kGroupRoutes:
        if (x[0].sym == Sym::kTokens && y.size() == 1 && y[0].sym == Sym::kRoutes &&
            y[0].n == x[1].n && y[0].table >= 0)
          return Status::Ok();
        return Wrong(out[0], "routes are T*k of a table of experts");
      case Op::kDispatch:
      case Op::kDispatchRows:
        if (node_.op == Op::kDispatchRows) WEFT_RETURN_IF_ERROR(Is(in[2], {x[0], Dim::C(y[0].n)}));
        if (x[0].sym == Sym::kTokens && y.size() == 2 && routes_of(in[1], y[0]) && y[1] == x[1])
          return Status::Ok();
        return Wrong(out[0], "a row of each route's token");
      case Op::kCombine:
      case Op::kCombineRows: {
        if (!routes_of(in[1], x[0])) return Wrong(in[1], "not the routes of these rows");
        for (size_t i : {2, 3}) WEFT_RETURN_IF_ERROR(Is(in[i], {Dim::T(), Dim::C(x[0].n)}));
        return Is(out[0], {Dim::T(), x[1]});
      }
      default: break;
    }
    if (!routes_of(in[1], x[0])) return Wrong(in[1], "not the routes of these rows");
    const MatmulOperands operands = OperandsOf(node_);
    for (size_t i = 0; i < operands.weights.size(); ++i) {
      const auto& w = Dims(operands.weights[i]);
      if (w.size() != 3 || w[0].table != x[0].table || w[2] != x[1])
        return Wrong(operands.weights[i], "a weight is [E,N,K], E the routes' experts");
      WEFT_RETURN_IF_ERROR(Is(out[i], {x[0], w[1]}));
    }
    return Status::Ok();
  }
  Status Bias(ValueId bias, const Dim& n) const {
    if (Dims(bias).size() == 1 && Dims(bias)[0] == n) return Status::Ok();
    return Wrong(bias, "a bias is one an output");
  }
  Status Linear() const {
    const MatmulOperands operands = OperandsOf(node_);
    const auto& x = Dims(operands.x);
    if (x.size() != 2) return Wrong(operands.x, "a row has one axis");
    for (size_t i = 0; i < operands.weights.size(); ++i) {
      const auto& w = Dims(operands.weights[i]);
      if (w.size() != 2 || w[1] != x[1]) {
        return Wrong(operands.weights[i], fmt::format("has {} inputs, x has {}, or other leaves",
                                                      w.size() == 2 ? w[1].n : -1, x[1].n));
      }
      if (Dims(node_.out[i]) != std::vector<Dim>{x[0], w[0]})
        return Wrong(node_.out[i], "outputs are not the weight's rows");
      if (operands.biases[i] != kNoValue) WEFT_RETURN_IF_ERROR(Bias(operands.biases[i], w[0]));
    }
    return Status::Ok();
  }

  const Graph& g_;
  const Node& node_;
};

}  // namespace

Status Broken(std::string_view rule, const Graph& g, const Node& node, ValueId id,
              std::string_view why) {
  return Status::Internal("{}: {} at {}: value '{}' ({}): {}", rule, NameOf(node.op), node.layer,
                          id == kNoValue ? std::string_view("-") : g.value(id).name,
                          id == kNoValue ? "-" : ToString(g.value(id).on), why);
}

Status CheckArity(const Graph& g, const Node& node) {
  const auto count = static_cast<ValueId>(g.values.size());
  for (const auto* ids : {&node.in, &node.out}) {
    for (ValueId id : *ids) {
      if (id < 0 || id >= count)
        return Broken("V1", g, node, kNoValue, fmt::format("there is no value {}", id));
    }
  }
  const Arity arity = ArityOf(node.op);
  const int ins = static_cast<int>(node.in.size()), outs = static_cast<int>(node.out.size());
  if (ins < arity.in_min || ins > arity.in_max || outs < 1 ||
      (arity.out >= 0 && outs != arity.out)) {
    return Broken("V3", g, node, outs == 0 ? kNoValue : node.out[0],
                  fmt::format("{} inputs, {} outputs", ins, outs));
  }
  if (IsLinear(node.op)) {
    const int64_t weights = node.IntOr("weights", 0);
    const auto mask = static_cast<uint64_t>(node.IntOr("biases", 0));
    const int biases = std::popcount(mask);
    if (weights != outs || mask >> weights != 0 || 1 + weights + biases != ins) {
      return Broken("V3", g, node, node.out[0],
                    fmt::format("{} inputs, {} outputs for {} weights and {} biases", ins, outs,
                                weights, biases));
    }
    const bool roots = node.Has("roots"), finish = node.Has("finish");
    if (roots && (finish || biases > 0))
      return Broken("V3", g, node, node.out[0], "roots are neither finished nor biased");
  }
  return CheckAttrs(g, node);
}

namespace {

// Of a fused node, each link of its chain.
Status CheckLinks(const Graph& g, const Node& node, Status (*check)(const Graph&, const Node&)) {
  const FusedChain chain = ChainOf(node);
  WEFT_RETURN_IF_ERROR(check(g, chain.matmul));
  WEFT_RETURN_IF_ERROR(check(g, chain.exchange));
  return chain.norm.op == Op::kCount ? Status::Ok() : check(g, chain.norm);
}

}  // namespace

Status CheckShapes(const Graph& g, const Node& node) {
  return IsFused(node.op) ? CheckLinks(g, node, CheckShapes) : Shapes(g, node).Check();
}

Status CheckTypes(const Graph& g, const Node& node) {
  if (IsFused(node.op)) return CheckLinks(g, node, CheckTypes);
  const auto wrong = [&](ValueId id, std::string_view wants) {
    return Broken("V4", g, node, id, fmt::format("{} wanted", wants));
  };
  const auto plain = [&](ValueId id) {
    const Value& v = g.value(id);
    return !v.int8_rows && !v.pairs && (v.dtype == DType::kF32 || v.dtype == DType::kBF16);
  };
  for (ValueId id : node.out) {
    const Value& v = g.value(id);
    const bool moved = Moves(node.op) && g.value(node.in[0]).int8_rows;
    if (v.int8_rows != (node.op == Op::kQuantise || moved))
      return wrong(id, "int8 rows by quantise alone");
    if (v.pairs != (node.op == Op::kArgmax || node.op == Op::kPairMax))
      return wrong(id, "pairs by argmax alone");
  }
  switch (node.op) {
    case Op::kEmbedding:
    case Op::kEmbed:
      return g.value(node.in[0]).dtype == DType::kI32 ? Status::Ok() : wrong(node.in[0], "int32");
    case Op::kRmsNorm:
    case Op::kAdd:
    case Op::kAddRmsNorm:
    case Op::kSiluMul:
    case Op::kSigmoidMul:
    case Op::kSwiGlu:
    case Op::kGatedRmsNorm:
    case Op::kConcat:
    case Op::kRope:
    case Op::kAttention:
    case Op::kQuantise: {
      const DType dtype = g.value(node.in[0]).dtype;
      const bool two = node.op == Op::kAdd || node.op == Op::kAddRmsNorm ||
                       node.op == Op::kSiluMul || node.op == Op::kSigmoidMul ||
                       node.op == Op::kSwiGlu || node.op == Op::kGatedRmsNorm ||
                       node.op == Op::kConcat;
      for (size_t i = 0; i < (two ? 2u : 1u); ++i) {
        if (!plain(node.in[i]) || g.value(node.in[i]).dtype != dtype)
          return wrong(node.in[i], "operands of one dtype");
      }
      if (node.op == Op::kQuantise) return Status::Ok();
      for (ValueId id : node.out) {
        if (g.value(id).dtype != dtype) return wrong(id, "the operands' dtype");
      }
      return Status::Ok();
    }
    case Op::kKvWrite:
      for (size_t i : {1, 2}) {
        if (!plain(node.in[i]) || g.value(node.in[i]).dtype != g.value(node.in[0]).dtype)
          return wrong(node.in[i], "the cache's dtype");
      }
      return g.value(node.out[0]).dtype == g.value(node.in[0]).dtype
                 ? Status::Ok()
                 : wrong(node.out[0], "the cache's dtype");
    case Op::kGateRows:
      if (!plain(node.in[0]) || g.value(node.out[0]).dtype != g.value(node.in[0]).dtype)
        return wrong(node.in[0], "operands of one dtype");
      return g.value(node.in[1]).dtype == DType::kF32 ? Status::Ok()
                                                      : wrong(node.in[1], "float32 gates");
    case Op::kExperts:
      return g.value(node.in[1]).dtype == DType::kF32 ? Status::Ok()
                                                      : wrong(node.in[1], "float32 logits");
    case Op::kRoute:
      if (g.value(node.in[0]).dtype != DType::kF32) return wrong(node.in[0], "float32 logits");
      if (g.value(node.out[1]).dtype != DType::kF32) return wrong(node.out[1], "float32 weights");
      return g.value(node.out[0]).dtype == DType::kI32 ? Status::Ok()
                                                       : wrong(node.out[0], "int32 ids");
    case Op::kGroupRoutes:
      for (ValueId id : {node.in[0], node.out[0]}) {
        if (g.value(id).dtype != DType::kI32) return wrong(id, "int32");
      }
      return Status::Ok();
    case Op::kCombineRows:
      for (ValueId id : {node.in[0], node.out[0]}) {
        if (!plain(id)) return wrong(id, "numbers");
      }
      if (g.value(node.in[2]).dtype != DType::kI32) return wrong(node.in[2], "int32 ids");
      return g.value(node.in[3]).dtype == DType::kF32 ? Status::Ok()
                                                      : wrong(node.in[3], "float32 weights");
    case Op::kCombine:
      if (!plain(node.in[0])) return wrong(node.in[0], "numbers");
      for (ValueId id : {node.in[3], node.out[0]}) {
        if (g.value(id).dtype != DType::kF32) return wrong(id, "float32");
      }
      return g.value(node.in[2]).dtype == DType::kI32 ? Status::Ok()
                                                      : wrong(node.in[2], "int32 ids");
    case Op::kCausalConv:
      for (ValueId id : {node.in[0], node.out[0], node.out[1]}) {
        if (!plain(id) || g.value(id).dtype != g.value(node.in[1]).dtype)
          return wrong(id, "the dtype of x");
      }
      return Status::Ok();
    case Op::kGatedDelta:
      for (ValueId id : {node.in[2], node.in[3], node.in[4], node.in[5], node.out[0]}) {
        if (!plain(id) || g.value(id).dtype != g.value(node.in[1]).dtype)
          return wrong(id, "operands of one dtype");
      }
      for (ValueId id : {node.in[0], node.out[1]}) {
        if (g.value(id).dtype != DType::kF32) return wrong(id, "a float32 state");
      }
      return Status::Ok();
    case Op::kMatmul:
    case Op::kExpertMatmul: {
      const MatmulOperands operands = OperandsOf(node);
      const Value& x = g.value(operands.x);
      if (x.pairs) return wrong(operands.x, "numbers");
      for (ValueId w : operands.weights) {
        if (x.int8_rows && !IsQuantised(g.value(w).dtype)) return wrong(w, "a quantised weight");
      }
      for (ValueId y : node.out) {
        if (node.Has("roots") && g.value(y).dtype != DType::kF32) return wrong(y, "float32 roots");
      }
      return Status::Ok();
    }
    case Op::kFinish:
    case Op::kAllReduce:
    case Op::kReduceScatter:
      if (!plain(node.in[0]) || g.value(node.in[0]).dtype != DType::kF32)
        return wrong(node.in[0], "float32 roots");
      return Status::Ok();
    case Op::kArgmax:
    case Op::kSample:
    case Op::kHashLogits:
      if (!plain(node.in[0]) || g.value(node.in[0]).dtype != DType::kF32)
        return wrong(node.in[0], "float32 logits");
      return Status::Ok();
    case Op::kDispatchRows:
      if (g.value(node.in[2]).dtype != DType::kI32) return wrong(node.in[2], "int32 ids");
      [[fallthrough]];
    case Op::kGatherRows:
    case Op::kDispatch:
    case Op::kSliceRows:
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kPairMax:
      if (g.value(node.in[0]).dtype != g.value(node.out[0]).dtype)
        return wrong(node.out[0], "the operand's dtype");
      return Status::Ok();
    default: return Status::Ok();
  }
}

}  // namespace weft::graph
