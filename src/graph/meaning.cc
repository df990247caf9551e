#include "graph/meaning.h"

#include <algorithm>

#include "base/hash.h"

namespace weft::graph {
namespace {

class Term {
 public:
  explicit Term(std::string_view head) { Text(head); }
  Term& Text(std::string_view text) {
    hash_.AddValue(static_cast<int64_t>(text.size()));
    hash_.Add(text);
    return *this;
  }
  Term& Of(uint64_t part) {
    hash_.AddValue(part);
    return *this;
  }
  Term& Type(const Value& v) {
    hash_.AddValue(v.dtype);
    hash_.AddValue(v.int8_rows);
    hash_.AddValue(v.pairs);
    return *this;
  }
  // How an exchange moves is no part of what is computed.
  Term& Attrs(const Node& node) {
    std::vector<const Attr*> attrs;
    for (const Attr& a : node.attrs) {
      if (a.key != "axes" && a.key != "order" && a.key != "to_dim") attrs.push_back(&a);
    }
    std::sort(attrs.begin(), attrs.end(),
              [](const Attr* a, const Attr* b) { return a->key < b->key; });
    for (const Attr* a : attrs) {
      Text(a->key).Of(a->value.index());
      if (const auto* i = std::get_if<int64_t>(&a->value)) hash_.AddValue(*i);
      if (const auto* d = std::get_if<double>(&a->value)) hash_.AddValue(*d);
      if (const auto* s = std::get_if<std::string>(&a->value)) Text(*s);
    }
    return *this;
  }
  uint64_t Done() const { return hash_.Digest(); }

 private:
  Hash64Stream hash_;
};

class Terms {
 public:
  explicit Terms(const Graph& g) : g_(g), of_(g.values.size(), 0), first_name_(g.values.size()) {
    std::vector<bool> made(g.values.size(), false);
    for (const Node& node : g.nodes) {
      for (ValueId id : node.out) made[id] = true;
    }
    for (size_t id = 0; id < g.values.size(); ++id) {
      if (made[id]) continue;
      of_[id] = Source(g.values[id]);
      if (g.values[id].kind == ValueKind::kState) first_name_[id] = g.values[id].name;
    }
    for (const Node& node : g.nodes) Make(node);
  }

  Meaning Result() const {
    Meaning meaning = effects_;
    for (ValueId id : g_.outputs) meaning.outputs.push_back(of_[id]);
    return meaning;
  }

 private:
  uint64_t Table(int table) const {
    if (table < 0) return 0;
    const AxisTable& t = g_.tables[table];
    Term term("table");
    for (int64_t start : t.leaves.starts()) term.Of(static_cast<uint64_t>(start));
    if (t.follows >= 0) term.Of(Table(t.follows)).Of(static_cast<uint64_t>(t.follow_width));
    return term.Done();
  }

  uint64_t Source(const Value& v) const {
    Term term("source");
    term.Text(v.name).Of(static_cast<uint64_t>(v.kind)).Type(v);
    for (const Dim& d : v.dims) {
      term.Of(static_cast<uint64_t>(d.sym)).Of(static_cast<uint64_t>(d.n)).Of(Table(d.table));
    }
    return term.Done();
  }

  uint64_t In(const Node& node, size_t i) const { return i < node.in.size() ? of_[node.in[i]] : 0; }
  uint64_t Roots(uint64_t x, uint64_t weight) const {
    return Term("roots").Of(x).Of(weight).Done();
  }
  uint64_t Finish(uint64_t roots, uint64_t bias, const Value& y) const {
    return Term("finish").Of(roots).Of(bias).Type(y).Done();
  }
  uint64_t Add(uint64_t a, uint64_t b, const Value& y) const {
    return Term("add").Of(std::min(a, b)).Of(std::max(a, b)).Type(y).Done();
  }
  uint64_t Norm(uint64_t x, uint64_t gain, const Node& node, const Value& y) const {
    return Term("norm").Of(x).Of(gain).Attrs(node).Type(y).Done();
  }

  void Matmul(const Node& node) {
    const MatmulOperands operands = OperandsOf(node);
    for (size_t i = 0; i < operands.weights.size(); ++i) {
      const Value& y = g_.value(node.out[i]);
      const uint64_t x = of_[operands.x], weight = of_[operands.weights[i]];
      const uint64_t bias = operands.biases[i] == kNoValue ? 0 : of_[operands.biases[i]];
      if (node.Has("roots")) {
        of_[node.out[i]] = Roots(x, weight);
      } else if (node.Has("finish")) {
        of_[node.out[i]] = Finish(Roots(x, weight), bias, y);
      } else {
        of_[node.out[i]] = Term("product").Of(x).Of(weight).Of(bias).Type(y).Done();
      }
    }
  }

  void Make(const Node& node) {
    if (IsFused(node.op)) {
      const FusedChain chain = ChainOf(node);
      Make(chain.matmul);
      Make(chain.exchange);
      if (chain.norm.op != Op::kCount) Make(chain.norm);
      return;
    }
    const Value& y = g_.value(node.out[0]);
    switch (node.op) {
      case Op::kMatmul: return Matmul(node);
      case Op::kFinish:
      case Op::kAllReduce:
      case Op::kReduceScatter: of_[node.out[0]] = Finish(In(node, 0), In(node, 1), y); return;
      case Op::kAdd: of_[node.out[0]] = Add(In(node, 0), In(node, 1), y); return;
      case Op::kRmsNorm: of_[node.out[0]] = Norm(In(node, 0), In(node, 1), node, y); return;
      case Op::kAddRmsNorm:
        of_[node.out[0]] = Add(In(node, 0), In(node, 1), y);
        of_[node.out[1]] = Norm(of_[node.out[0]], In(node, 2), node, g_.value(node.out[1]));
        return;
      case Op::kSliceRows:
      case Op::kAllGather:
      case Op::kAllToAll:
      case Op::kPairMax: of_[node.out[0]] = In(node, 0); return;
      default: break;
    }
    if (node.op == Op::kCombineRows && ids_of_[of_[node.in[1]]] == of_[node.in[2]]) {
      // A combination, finished, if all go by the ids that the routes were made of.
      Term roots(NameOf(Op::kCombine));
      for (const ValueId id : node.in) roots.Of(of_[id]);
      Value partial;
      partial.dtype = DType::kF32;
      of_[node.out[0]] =
          Finish(Term("out").Of(roots.Attrs(node).Done()).Of(0).Type(partial).Done(), 0, y);
      return;
    }
    // Rows that are dispatched by their owners are those of a dispatch, if all go by the ids that
    // the routes were made of.
    const bool owners = node.op == Op::kDispatchRows && ids_of_[of_[node.in[1]]] == of_[node.in[2]];
    Term base(NameOf(owners ? Op::kDispatch : node.op));
    for (size_t i = 0; i < node.in.size() - (owners ? 1 : 0); ++i) base.Of(of_[node.in[i]]);
    base.Attrs(node);
    for (size_t i = 0; i < node.out.size(); ++i) {
      of_[node.out[i]] = Term("out").Of(base.Done()).Of(i).Type(g_.value(node.out[i])).Done();
    }
    if (node.op == Op::kGroupRoutes) ids_of_[of_[node.out[0]]] = of_[node.in[0]];
    if (WritesState(node.op)) {
      first_name_[node.out.back()] = first_name_[node.in[0]];
      effects_.effects[first_name_[node.in[0]]] = of_[node.out.back()];
    }
  }

  const Graph& g_;
  std::vector<uint64_t> of_;
  std::map<uint64_t, uint64_t> ids_of_;  // by grouping: what it groups
  std::vector<std::string> first_name_;  // of states
  Meaning effects_;
};

}  // namespace

Meaning MeaningOf(const Graph& graph) { return Terms(graph).Result(); }

Status SameMeaning(const Meaning& before, const Graph& after) {
  const Meaning now = MeaningOf(after);
  if (before.outputs.size() != now.outputs.size()) {
    return Status::Internal("V10: {} outputs where there were {}", now.outputs.size(),
                            before.outputs.size());
  }
  for (size_t i = 0; i < now.outputs.size(); ++i) {
    if (before.outputs[i] == now.outputs[i]) continue;
    return Status::Internal("V10: output '{}' is not what it was",
                            after.value(after.outputs[i]).name);
  }
  for (const auto& [name, term] : before.effects) {
    const auto it = now.effects.find(name);
    if (it == now.effects.end())
      return Status::Internal("V10: state '{}' is written no more", name);
    if (it->second != term) return Status::Internal("V10: state '{}' gets other values", name);
  }
  for (const auto& [name, term] : now.effects) {
    if (before.effects.count(name) == 0)
      return Status::Internal("V10: state '{}' is written now", name);
  }
  return Status::Ok();
}

Status SameMeaning(const Graph& before, const Graph& after) {
  return SameMeaning(MeaningOf(before), after);
}

}  // namespace weft::graph
