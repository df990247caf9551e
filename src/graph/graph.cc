#include "graph/graph.h"

#include <algorithm>

#include "base/check.h"

namespace weft::graph {
namespace {

const AttrValue* FindAttr(const Node& node, std::string_view key) {
  for (const Attr& attr : node.attrs) {
    if (attr.key == key) return &attr.value;
  }
  return nullptr;
}

template <typename T>
const T& Get(const Node& node, std::string_view key) {
  const AttrValue* value = FindAttr(node, key);
  WEFT_CHECK(value != nullptr && std::holds_alternative<T>(*value), "{} at {} has no attribute {}",
             NameOf(node.op), node.layer, key);
  return std::get<T>(*value);
}

}  // namespace

bool Node::Has(std::string_view key) const { return FindAttr(*this, key) != nullptr; }
int64_t Node::Int(std::string_view key) const { return Get<int64_t>(*this, key); }
double Node::Real(std::string_view key) const { return Get<double>(*this, key); }
const std::string& Node::Text(std::string_view key) const { return Get<std::string>(*this, key); }
int64_t Node::IntOr(std::string_view key, int64_t otherwise) const {
  return Has(key) ? Int(key) : otherwise;
}

void Node::Set(std::string_view key, AttrValue value) {
  for (Attr& attr : attrs) {
    if (attr.key == key) {
      attr.value = std::move(value);
      return;
    }
  }
  attrs.push_back({std::string(key), std::move(value)});
}

ValueId Graph::Find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

int Graph::ProducerOf(ValueId id) const {
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId out : nodes[n].out) {
      if (out == id) return static_cast<int>(n);
    }
  }
  return -1;
}

Uses::Uses(const Graph& graph)
    : producer_(graph.values.size(), -1), begin_(graph.values.size() + 1, 0) {
  const auto each_read = [&](const auto& visit) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::vector<ValueId>& in = graph.nodes[n].in;
      for (auto id = in.begin(); id != in.end(); ++id) {
        if (std::find(in.begin(), id, *id) == id) visit(*id, static_cast<int>(n));
      }
    }
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].out) producer_[id] = static_cast<int>(n);
  }
  each_read([&](ValueId id, int) { ++begin_[id + 1]; });
  for (size_t id = 0; id < graph.values.size(); ++id) begin_[id + 1] += begin_[id];
  readers_.resize(begin_.back());
  std::vector<int> next(begin_.begin(), begin_.end() - 1);
  each_read([&](ValueId id, int node) { readers_[next[id]++] = node; });
}

namespace {

// The rank's place of how many in a contiguous cut.
struct Place {
  int index = 0;
  int count = 1;
};
Place PlaceOf(const Graph& g, const Value& v, int dim, int rank) {
  if (v.on.empty()) return {};
  const Cut cut = CutOf(g.mesh, v.on, dim);
  if (cut.whole()) return {};
  WEFT_CHECK(cut.contiguous, "'{}' {} is cut across its features", v.name, ToString(v.on));
  return {ChunksOf(g.mesh, cut, rank)[0] / cut.per_rank, cut.chunks / cut.per_rank};
}

int64_t AxesOf(const Graph& g, const Node& node) {
  if (!IsExchange(node.op) && !IsFused(node.op)) return 0;
  return node.IntOr("axes", (int64_t{1} << g.mesh.axes.size()) - 1);
}

}  // namespace

ElementRange ElementsOf(const Graph& g, const Value& v, int dim, int rank) {
  const Dim& d = v.dims[dim];
  const Place place = PlaceOf(g, v, dim, rank);
  if (place.count == 1) return {0, d.n};
  if (d.table < 0) return EvenElements(d.n, place.index, place.count);
  return OwnedElements(g.tables, d.table, place.index, place.count);
}

LeafRange LeavesOf(const Graph& g, const Value& v, int dim, int rank) {
  const Dim& d = v.dims[dim];
  WEFT_CHECK(d.table >= 0, "dimension {} of '{}' has no leaves", dim, v.name);
  const Place place = PlaceOf(g, v, dim, rank);
  if (place.count == 1) return {0, g.tables[d.table].leaves.count()};
  return OwnedLeaves(g.tables, d.table, place.index, place.count);
}

int64_t BytesOfRow(const Value& v, int64_t width) {
  if (v.pairs) return width * 12;
  if (v.int8_rows) return width + width / 32 * 8;
  return width * FactsOf(v.dtype).block_bytes;
}

std::vector<int> GroupOf(const Graph& g, const Node& node, int rank) {
  return g.mesh.GroupOf(rank, AxesOf(g, node));
}

int GroupSizeOf(const Graph& g, const Node& node) {
  int size = 1;
  for (size_t a = 0; a < g.mesh.axes.size(); ++a) {
    if ((AxesOf(g, node) >> a & 1) != 0) size *= g.mesh.axes[a].size;
  }
  return size;
}

// Operands stand as the op's row of facts says; what peers read of it comes last.
FusedChain ChainOf(const Node& fused) {
  const bool norms = fused.op == Op::kMatmulAllReduceNorm;
  const ValueId y = norms ? fused.out[2] : fused.out[0], roots = fused.out.back();
  const size_t bias = norms ? 4 : 2;
  FusedChain chain;
  chain.matmul = {Op::kMatmul, {fused.in[0], fused.in[1]}, {roots}, {}, fused.layer};
  chain.matmul.Set("weights", int64_t{1});
  chain.matmul.Set("roots", int64_t{1});
  chain.exchange = {norms ? Op::kAllReduce : Op::kReduceScatter, {roots}, {y}, {}, fused.layer};
  if (fused.in.size() > bias) chain.exchange.in.push_back(fused.in[bias]);
  if (norms)
    chain.norm = {Op::kAddRmsNorm,
                  {fused.in[2], y, fused.in[3]},
                  {fused.out[0], fused.out[1]},
                  fused.attrs,
                  fused.layer};
  return chain;
}

Node FuseChain(const Node& matmul, const Node& exchange, const Node* norm) {
  Node fused{
      Op::kMatmulReduceScatter, matmul.in, {exchange.out[0], matmul.out[0]}, {}, matmul.layer};
  if (norm != nullptr) {
    fused.op = Op::kMatmulAllReduceNorm;
    fused.in.insert(fused.in.end(), {norm->in[0], norm->in[2]});
    fused.out.insert(fused.out.begin(), norm->out.begin(), norm->out.end());
    fused.attrs = norm->attrs;
  }
  fused.in.insert(fused.in.end(), exchange.in.begin() + 1, exchange.in.end());
  return fused;
}

bool MakesRoots(const Node& node, ValueId id) {
  if (IsFused(node.op)) return id == node.out.back();
  return node.op == Op::kCombine || (node.op == Op::kMatmul && node.Has("roots"));
}

MatmulOperands OperandsOf(const Node& matmul) {
  MatmulOperands operands;
  const int64_t weights = matmul.Int("weights");
  const int64_t mask = matmul.IntOr("biases", 0);
  operands.x = matmul.in[0];
  const size_t first = matmul.op == Op::kExpertMatmul ? 2 : 1;
  size_t next = first + static_cast<size_t>(weights);
  for (int64_t w = 0; w < weights; ++w) {
    operands.weights.push_back(matmul.in[first + static_cast<size_t>(w)]);
    operands.biases.push_back((mask >> w) & 1 ? matmul.in[next++] : kNoValue);
  }
  WEFT_CHECK(next == matmul.in.size(), "{}: {} inputs, {} expected", matmul.layer, matmul.in.size(),
             next);
  return operands;
}

}  // namespace weft::graph
