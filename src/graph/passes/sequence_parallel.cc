// sequence_parallel: between two row-parallel products every rank has its own token rows, and the
// residual stays so through all layers.
//   y = all_reduce(p); s = add(r, y); n = rms_norm(s)
//     ->   y = reduce_scatter(p); s = add(r, y); n' = rms_norm(s); n = all_gather(n')
// Laws: add and norm are token-wise; the tree, the bias and the rounding are the owner's as before.
// The embedding makes only its rank's rows; what else enters whole (a deepstack input) is sliced,
// never reduced. A norm is walked once per row instead of once per row and rank.
#include <utility>

#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.of("sequence_parallel") != Switch::kOn) return "the schedule is not sp, fc1 or fc1+fc2";
  return c.ranks == 1 ? "one rank has all the rows" : "";
}

// Operands that hold rows of tokens, of ops that walk whole rows one by one.
size_t RowOperands(const Node& node) {
  switch (node.op) {
    case Op::kAdd:
    case Op::kGateRows:
    case Op::kConcat:
    case Op::kAddRmsNorm: return 2;
    case Op::kRmsNorm: return node.Int("groups") == 1 ? 1 : 0;
    default: return 0;
  }
}

class Scatter {
 public:
  explicit Scatter(Graph& g) : g_(g), uses_(g), rows_(CutByAll(g, 0)) {}

  int Run() {
    // Asked before anything moves: node numbers are those of the graph as it came.
    std::vector<bool> scatters(g_.nodes.size());
    for (size_t n = 0; n < g_.nodes.size(); ++n) scatters[n] = ReadByWalks(g_.nodes[n]);
    std::vector<Node> nodes = std::exchange(g_.nodes, {});
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      if (node.op == Op::kAllReduce && scatters[n]) {
        node.op = Op::kReduceScatter;
        g_.value(node.out[0]).on = rows_;
      } else if (node.op == Op::kEmbed && scatters[n]) {
        node.Set("axes", AllAxes(g_));
        g_.value(node.out[0]).on = rows_;
      } else if (AnyOwnRows(node)) {
        for (size_t i = 0; i < RowOperands(node); ++i) node.in[i] = OwnRows(node.in[i], node.layer);
        for (ValueId id : node.out) g_.value(id).on = rows_;
        if (node.op == Op::kRmsNorm || node.op == Op::kAddRmsNorm) ++norms_;
      } else {
        for (ValueId& id : node.in) id = Whole(id, node.layer);
      }
      g_.nodes.push_back(std::move(node));
    }
    for (ValueId& id : g_.outputs) id = Whole(id, "out");
    return norms_;
  }

 private:
  // All that an embedding or some of what a sum across ranks is for are adds and norms of [T, H].
  bool ReadByWalks(const Node& node) const {
    if (node.op != Op::kAllReduce && node.op != Op::kEmbed) return false;
    if (g_.value(node.out[0]).dims[0].sym != Sym::kTokens) return false;
    int walks = 0, others = 0;
    for (int reader : uses_.ReadersOf(node.out[0]))
      ++(RowOperands(g_.nodes[reader]) > 0 ? walks : others);
    return walks > 0 && (node.op == Op::kAllReduce || others == 0);
  }
  // (A weight that is cut by its outputs stands S(0) as well.)
  bool HasOwnRows(ValueId id) const {
    const Value& v = g_.value(id);
    return v.on == rows_ && !v.dims.empty() && v.dims[0].sym == Sym::kTokens;
  }
  bool AnyOwnRows(const Node& node) const {
    for (size_t i = 0; i < RowOperands(node); ++i) {
      if (HasOwnRows(node.in[i])) return true;
    }
    return false;
  }
  ValueId Moved(Op op, ValueId from, std::string_view suffix, Placements on,
                const std::string& layer) {
    const ValueId to = AddLike(g_, from, suffix);
    g_.value(to).on = std::move(on);
    g_.nodes.push_back(MoveOnAll(g_, op, from, to, layer));
    known_.resize(g_.values.size(), kNoValue);
    return known_[from] = to;
  }
  ValueId Known(ValueId id) const {
    return static_cast<size_t>(id) < known_.size() ? known_[id] : kNoValue;
  }
  ValueId OwnRows(ValueId id, const std::string& layer) {
    if (HasOwnRows(id)) return id;
    if (Known(id) != kNoValue) return Known(id);
    return Moved(Op::kSliceRows, id, ".rows", rows_, layer);
  }
  ValueId Whole(ValueId id, const std::string& layer) {
    if (!HasOwnRows(id)) return id;
    if (Known(id) != kNoValue) return Known(id);
    return Moved(Op::kAllGather, id, ".gathered", WholeOnAll(g_), layer);
  }

  Graph& g_;
  const Uses uses_;
  const Placements rows_;
  std::vector<ValueId> known_;  // by value: its gathered or sliced form
  int norms_ = 0;
};

int Run(Graph& g, const PassContext&) { return Scatter(g).Run(); }

}  // namespace

extern const Pass kSequenceParallel;
const Pass kSequenceParallel{
    "sequence_parallel", Numerics::kExact,
    "reduce-scatter, adds and norms on the rank's own rows, gather after the norm", Refuse, Run};

}  // namespace weft::graph
