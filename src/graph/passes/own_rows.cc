#include "graph/passes/own_rows.h"

#include <algorithm>
#include <utility>

namespace weft::graph {

bool GathersRows(const Graph& g, const Node& node) {
  return node.op == Op::kAllGather && node.Int("axes") == AllAxes(g) &&
         g.value(node.in[0]).on == CutByAll(g, 0) &&
         g.value(node.in[0]).dims[0].sym == Sym::kTokens;
}

size_t RowOperands(const Graph& g, const Node& node) {
  size_t rows = 0;
  switch (node.op) {
    case Op::kQuantise:
    case Op::kFinish:
    case Op::kRmsNorm:
    case Op::kMatmul:
    case Op::kRoute: rows = 1; break;
    case Op::kAdd:
    case Op::kAddRmsNorm:
    case Op::kSiluMul:
    case Op::kSigmoidMul:
    case Op::kGateRows:
    case Op::kConcat: rows = 2; break;
    default: return 0;
  }
  for (size_t i = rows; i < node.in.size(); ++i) {
    if (g.value(node.in[i]).on != WholeOnAll(g)) return 0;
  }
  return rows;
}

bool SlicesRows(const Graph& g, const Node& node) {
  return node.op == Op::kSliceRows && g.value(node.out[0]).on == CutByAll(g, 0);
}

void AddDead(const Graph& g, const Uses& uses, const std::set<int>& nodes, std::set<int>* gone) {
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    const std::vector<ValueId>& out = g.nodes[static_cast<size_t>(*n)].out;
    const bool dead = std::all_of(out.begin(), out.end(), [&](ValueId id) {
      const auto readers = uses.ReadersOf(id);
      return std::find(g.outputs.begin(), g.outputs.end(), id) == g.outputs.end() &&
             std::all_of(readers.begin(), readers.end(),
                         [&](int reader) { return gone->contains(reader); });
    });
    if (dead) gone->insert(*n);
  }
}

bool OwnRows::Possible(ValueId id) {
  Can& can = can_[static_cast<size_t>(id)];
  if (can != Can::kUnasked) return can == Can::kYes;
  can = Can::kNo;
  const int maker = uses_.ProducerOf(id);
  if (maker < 0) return false;
  const Node& node = g_.nodes[static_cast<size_t>(maker)];
  bool all = GathersRows(g_, node);
  if (!all) {
    const size_t rows = RowOperands(g_, node);
    all = rows > 0;
    for (size_t i = 0; i < rows; ++i) all = all && Possible(node.in[i]);
  }
  can_[static_cast<size_t>(id)] = all ? Can::kYes : Can::kNo;
  return all;
}

void OwnRows::Collect(ValueId id, std::set<int>* nodes) const {
  const int maker = uses_.ProducerOf(id);
  if (!nodes->insert(maker).second) return;
  const Node& node = g_.nodes[static_cast<size_t>(maker)];
  const size_t rows = GathersRows(g_, node) ? 0 : RowOperands(g_, node);
  for (size_t i = 0; i < rows; ++i) Collect(node.in[i], nodes);
}

void OwnRows::Want(const std::set<int>& nodes) {
  for (const int n : nodes) cloned_[static_cast<size_t>(n)] = true;
}

void OwnRows::Append(Node node, int n) {
  own_.resize(g_.values.size(), kNoValue);
  if (SlicesRows(g_, node) && Known(node.in[0])) {
    own_[static_cast<size_t>(node.out[0])] = own_[static_cast<size_t>(node.in[0])];
    return;
  }
  // Slices and twins that are gone: their readers read what stands in their place.
  for (ValueId& id : node.in) {
    const Value& v = g_.value(id);
    if (v.on == CutByAll(g_, 0) && Known(id)) id = own_[static_cast<size_t>(id)];
  }
  const bool clones = cloned_[static_cast<size_t>(n)];
  if (clones && GathersRows(g_, node)) own_[static_cast<size_t>(node.out[0])] = node.in[0];
  if (!IsThere(node)) g_.nodes.push_back(node);
  if (clones && !GathersRows(g_, node)) AppendOwn(std::move(node));
}

bool OwnRows::IsThere(const Node& node) {
  const size_t rows = RowOperands(g_, node);
  if (rows == 0 || g_.value(node.in[0]).on != CutByAll(g_, 0)) return false;
  const auto [at, first] = there_.try_emplace({node.op, node.in}, node);
  if (first || at->second.attrs != node.attrs) return false;
  for (size_t i = 0; i < node.out.size(); ++i)
    own_[static_cast<size_t>(node.out[i])] = at->second.out[i];
  return true;
}

void OwnRows::AppendOwn(Node node) {
  const size_t rows = RowOperands(g_, node);
  for (size_t i = 0; i < rows; ++i) node.in[i] = own_[static_cast<size_t>(node.in[i])];
  const auto [at, first] = there_.try_emplace({node.op, node.in}, node);
  const bool twin = !first && at->second.attrs == node.attrs;
  for (size_t i = 0; i < node.out.size(); ++i) {
    const ValueId part = twin ? at->second.out[i] : AddLike(g_, node.out[i], ".rows");
    own_.resize(g_.values.size(), kNoValue);
    own_[static_cast<size_t>(node.out[i])] = part;
    if (!twin) g_.value(part).on = CutByAll(g_, 0);
    node.out[i] = part;
  }
  if (twin) return;
  if (first) at->second = node;
  g_.nodes.push_back(std::move(node));
}

}  // namespace weft::graph
