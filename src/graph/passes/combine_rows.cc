// combine_rows: the owner of a token fetches what experts have made of it, and adds it up.
//   y S(0) = reduce_scatter(combine(x, routes, ids R, weights R))
//     ->   y S(0) = combine_rows(x, routes, ids R, own rows of weights)
// Law: a tree of sums over experts has the same bits whoever adds it. Behind exchange_experts the
// weights of other ranks' tokens are not gathered any more.
#include <fmt/format.h>

#include <utility>

#include "graph/passes/own_rows.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.ranks == 1) return "one rank has all the experts";
  return c.of("sequence_parallel") == Switch::kOn
             ? ""
             : "the schedule is not sp, fc1 or fc1+fc2: no rank owns rows";
}

// Bytes that a token's owner takes from its peers, on average over owners.
struct Bytes {
  double reduced = 0, combined = 0;
};

class CombineRows {
 public:
  CombineRows(Graph& g, const PassContext& c)
      : g_(g), uses_(g), always_(c.of("combine_rows") == Switch::kOn) {}

  int Run() {
    std::vector<int> combine_of(g_.nodes.size(), -1);  // by reduce_scatter that is rewritten
    int rewrites = 0;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const int combine = Look(static_cast<int>(n));
      if (combine < 0) continue;
      combine_of[n] = combine;
      ++rewrites;
    }
    if (rewrites == 0) return 0;
    const std::vector<Node> nodes = std::exchange(g_.nodes, {});
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (combine_of[n] < 0) {
        g_.nodes.push_back(nodes[n]);
        continue;
      }
      Node node = nodes[n];
      const Node& combine = nodes[static_cast<size_t>(combine_of[n])];
      node.op = Op::kCombineRows;
      node.in = combine.in;
      node.in[3] = OwnWeights(nodes, combine.in[3], node.layer);
      g_.nodes.push_back(std::move(node));
    }
    return rewrites;
  }

  std::string Why() {
    for (size_t n = 0; n < g_.nodes.size(); ++n) Look(static_cast<int>(n));
    return why_;
  }

 private:
  // The combine behind a reduce_scatter that is better done by owners; -1.
  int Look(int at) {
    const Node& scatter = g_.nodes[static_cast<size_t>(at)];
    if (scatter.op != Op::kReduceScatter || scatter.in.size() != 1) return -1;
    const int producer = uses_.ProducerOf(scatter.in[0]);
    if (producer < 0) return -1;
    const Node& combine = g_.nodes[static_cast<size_t>(producer)];
    if (combine.op != Op::kCombine) return -1;
    const auto leave = [&](std::string why) {
      if (why_.empty()) why_ = fmt::format("{}: {}", combine.layer, why);
      return -1;
    };
    if (uses_.ReadersOf(scatter.in[0]).size() != 1) return leave("its roots are read by others");
    if (scatter.IntOr("axes", AllAxes(g_)) != AllAxes(g_) || scatter.Has("order"))
      return leave("its roots meet in parts of the mesh");
    const Bytes bytes = BytesOf(combine);
    if (always_ || bytes.combined < bytes.reduced) return producer;
    return leave(fmt::format("an owner would take {:.0f} bytes a row in place of {:.0f}",
                             bytes.combined, bytes.reduced));
  }

  // If experts are chosen alike.
  Bytes BytesOf(const Node& combine) const {
    const Value& grouping = g_.value(combine.in[1]);
    const int ranks = g_.mesh.ranks();
    const double peers = static_cast<double>(ranks - 1) / ranks;
    int roots = 0;
    for (int r = 0; r < ranks; ++r) {
      const LeafTable& experts = g_.tables[grouping.dims[0].table].leaves;
      roots +=
          static_cast<int>(MaximalSubtrees(experts.count(), LeavesOf(g_, grouping, 0, r)).size());
    }
    const auto routes = static_cast<double>(grouping.dims[0].n);
    return {.reduced = peers * roots * static_cast<double>(RowBytes(g_, combine.out[0])),
            .combined = peers * routes * static_cast<double>(RowBytes(g_, combine.in[0]))};
  }

  // What a gather of them gathers, or a slice.
  ValueId OwnWeights(const std::vector<Node>& nodes, ValueId weights, const std::string& layer) {
    const int producer = uses_.ProducerOf(weights);
    if (producer >= 0 && GathersRows(g_, nodes[static_cast<size_t>(producer)]))
      return nodes[static_cast<size_t>(producer)].in[0];
    const ValueId own = AddLike(g_, weights, ".rows");
    g_.value(own).on = CutByAll(g_, 0);
    g_.nodes.push_back(MoveOnAll(g_, Op::kSliceRows, weights, own, layer));
    return own;
  }

  Graph& g_;
  const Uses uses_;
  const bool always_;
  std::string why_;
};

int Run(Graph& g, const PassContext& c) { return CombineRows(g, c).Run(); }

std::string Why(const Graph& g, const PassContext& c) {
  Graph copy = g;
  return CombineRows(copy, c).Why();
}

}  // namespace

extern const Pass kCombineRows;
const Pass kCombineRows{"combine_rows",
                        Numerics::kExact,
                        "who owns a token fetches its experts' rows and adds them up",
                        Refuse,
                        Run,
                        Why};

}  // namespace weft::graph
