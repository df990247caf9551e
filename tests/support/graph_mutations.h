// One random wrong step of a rewrite, of every kind that a pass could take.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "graph/graph.h"

namespace weft::test {

class GraphMutator {
 public:
  GraphMutator(graph::Graph* g, Rng* rng) : g_(*g), rng_(*rng) {}

  static std::vector<std::string_view> Kinds() {
    return {"drop an exchange",      "drop a node",         "delete a node",
            "swap a placement",      "change a leaf table", "reorder",
            "redirect an input",     "redirect alike",      "swap operands",
            "change an attribute",   "change an op",        "make twice",
            "change a shape",        "change a type",       "change an output",
            "change a table's owner"};
  }

  // False where this graph has nothing of the kind to change.
  bool Apply(std::string_view kind) {
    if (kind == "drop an exchange")
      return Drop([](const graph::Node& n) { return IsExchange(n.op); });
    if (kind == "drop a node") return Drop([](const graph::Node&) { return true; });
    if (kind == "delete a node") {
      g_.nodes.erase(g_.nodes.begin() + static_cast<long>(Below(g_.nodes.size())));
      return true;
    }
    if (kind == "swap a placement") {
      graph::Placements& on = g_.values[AnyUsed()].on;
      const graph::Placement options[] = {graph::Placement::R(), graph::Placement::P(),
                                          graph::Placement::S(0), graph::Placement::S(1)};
      graph::Placement& p = on[Below(on.size())];
      const graph::Placement other = options[Below(4)];
      if (other == p) return false;
      p = other;
      return true;
    }
    if (kind == "change a leaf table") {
      LeafTable& leaves = g_.tables[Below(g_.tables.size())].leaves;
      const LeafTable other = LeafTable::Make(
          leaves.size(), std::vector<int64_t>{8, 16, 24, 32, 48, 64, leaves.size()}[Below(7)]);
      if (other == leaves) return false;
      leaves = other;
      return true;
    }
    if (kind == "reorder") {
      const size_t a = Below(g_.nodes.size()), b = Below(g_.nodes.size());
      if (a == b) return false;
      std::swap(g_.nodes[a], g_.nodes[b]);
      return true;
    }
    if (kind == "redirect an input") {
      graph::Node& node = AnyNode();
      return Change(node.in[Below(node.in.size())],
                    static_cast<graph::ValueId>(Below(g_.values.size())));
    }
    if (kind == "redirect alike") {
      graph::Node& node = AnyNode();
      graph::ValueId& in = node.in[Below(node.in.size())];
      std::vector<graph::ValueId> alike;
      for (size_t id = 0; id < g_.values.size(); ++id) {
        const graph::Value &a = g_.values[id], &b = g_.value(in);
        if (a.dims.size() == b.dims.size() && a.dtype == b.dtype && a.on == b.on &&
            (a.dims.empty() || a.dims[0] == b.dims[0]))
          alike.push_back(static_cast<graph::ValueId>(id));
      }
      return Change(in, alike[Below(alike.size())]);
    }
    if (kind == "swap operands") {
      graph::Node& node = AnyNode();
      const size_t a = Below(node.in.size()), b = Below(node.in.size());
      if (node.in[a] == node.in[b]) return false;
      std::swap(node.in[a], node.in[b]);
      return true;
    }
    if (kind == "change an attribute") {
      graph::Node& node = AnyNode();
      if (node.attrs.empty()) return false;
      graph::AttrValue& value = node.attrs[Below(node.attrs.size())].value;
      if (auto* i = std::get_if<int64_t>(&value)) *i += Below(2) == 0 ? 1 : -1;
      if (auto* d = std::get_if<double>(&value)) *d *= 2;
      return true;
    }
    if (kind == "change an op") {
      graph::Node& node = AnyNode();
      const auto op = static_cast<graph::Op>(Below(static_cast<uint64_t>(graph::Op::kCount)));
      if (op == node.op) return false;
      node.op = op;
      return true;
    }
    if (kind == "make twice") {
      graph::Node &a = AnyNode(), &b = AnyNode();
      return Change(a.out[Below(a.out.size())], b.out[Below(b.out.size())]);
    }
    if (kind == "change a shape") {
      std::vector<graph::Dim>& dims = g_.values[AnyUsed()].dims;
      if (dims.empty()) return false;
      graph::Dim& dim = dims[Below(dims.size())];
      if (dim.sym != graph::Sym::kConst) {
        dim.sym = dim.sym == graph::Sym::kTokens ? graph::Sym::kHeadRows : graph::Sym::kTokens;
      } else if (Below(2) == 0) {
        dim.n += 16;
      } else {
        dim.table = dim.table < 0 ? 0 : -1;
      }
      return true;
    }
    if (kind == "change a type") {
      graph::Value& v = g_.values[AnyUsed()];
      if (Below(3) == 0)
        v.int8_rows = !v.int8_rows;
      else
        v.dtype = v.dtype == DType::kF32 ? DType::kBF16 : DType::kF32;
      return true;
    }
    if (kind == "change an output") return Change(g_.outputs[Below(g_.outputs.size())], AnyUsed());
    if (kind == "change a table's owner") {
      graph::AxisTable& t = g_.tables[Below(g_.tables.size())];
      if (t.follows < 0) return false;
      if (Below(2) == 0)
        t.follows = -1;
      else
        t.follow_width *= 2;
      return true;
    }
    return false;
  }

 private:
  uint64_t Below(uint64_t n) { return rng_.Below(n); }
  graph::Node& AnyNode() { return g_.nodes[Below(g_.nodes.size())]; }
  // A value that a node reads or makes.
  graph::ValueId AnyUsed() {
    const graph::Node& node = AnyNode();
    const size_t i = Below(node.in.size() + node.out.size());
    return i < node.in.size() ? node.in[i] : node.out[i - node.in.size()];
  }
  static bool Change(graph::ValueId& id, graph::ValueId other) {
    const bool changed = id != other;
    id = other;
    return changed;
  }
  // Takes a node out; who read its output reads its operand.
  template <typename Pick>
  bool Drop(Pick pick) {
    std::vector<size_t> fit;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (pick(g_.nodes[n])) fit.push_back(n);
    }
    if (fit.empty()) return false;
    const size_t n = fit[Below(fit.size())];
    const graph::ValueId from = g_.nodes[n].out[0], to = g_.nodes[n].in[0];
    g_.nodes.erase(g_.nodes.begin() + static_cast<long>(n));
    for (graph::Node& node : g_.nodes) std::replace(node.in.begin(), node.in.end(), from, to);
    std::replace(g_.outputs.begin(), g_.outputs.end(), from, to);
    return true;
  }

  graph::Graph& g_;
  Rng& rng_;
};

}  // namespace weft::test
