#include "plan/head_split.h"

#include <algorithm>

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

namespace {

// What an attention and a gated delta rule have in common: heads that keys belong to, and heads
// that read them.
struct Heads {
  ValueId kv, q;
  int64_t kv_dim, q_dim, group;

  int64_t kv_count(const Graph& g, int rank) const {
    return LocalWidth(g, g.value(kv), rank) / kv_dim;
  }
};

Heads HeadsOf(const Graph& g, const Node& node) {
  if (node.op == Op::kAttention) {
    const int64_t dim = node.Int("head_dim");
    return {node.in[1], node.in[0], dim, dim, node.Int("group")};
  }
  const int64_t key_dim = node.Int("key_dim"), value_dim = node.Int("value_dim");
  const auto count = [&](ValueId id, int64_t dim) { return g.value(id).dims[1].n / dim; };
  return {node.in[2], node.in[3], key_dim, value_dim,
          count(node.in[3], value_dim) / count(node.in[2], key_dim)};
}

bool Divides(const Plan& plan, const Heads& heads) {
  for (int r = 0; r < plan.graph.mesh.ranks(); ++r) {
    if (heads.kv_count(plan.graph, r) % plan.workers_per_rank != 0) return false;
  }
  return true;
}

// Steps of one attention or recurrence that are shared out by its heads.
class Splitter {
 public:
  Splitter(Plan& plan, const graph::Uses& uses, int of)
      : plan_(plan),
        g_(plan.graph),
        uses_(uses),
        of_(of),
        node_(g_.nodes[static_cast<size_t>(of)]) {}

  void Attention() {
    if (plan_.bucket.rows_max == 1 || Divides(plan_, HeadsOf(g_, node_))) Take(of_);
    TakeMakers(node_.in[0]);
    const int writer = uses_.ProducerOf(node_.in[1]);
    if (writer < 0 || g_.nodes[static_cast<size_t>(writer)].op != Op::kKvWrite) return;
    Take(writer);
    TakeMakers(g_.nodes[static_cast<size_t>(writer)].in[1]);
    TakeMakers(g_.nodes[static_cast<size_t>(writer)].in[2]);
  }

  void GatedDelta() {
    if (node_.Has("tiled") || !Divides(plan_, HeadsOf(g_, node_))) return;
    Take(of_);
    for (size_t i = 1; i <= 3; ++i) {
      const int maker = uses_.ProducerOf(node_.in[i]);
      if (maker >= 0 && g_.nodes[static_cast<size_t>(maker)].op == Op::kCausalConv &&
          uses_.ReadersOf(node_.in[i]).size() == 1)
        Take(maker);
    }
    for (const int reader : uses_.ReadersOf(node_.out[0])) {
      const Node& norm = g_.nodes[static_cast<size_t>(reader)];
      if (norm.op == Op::kGatedRmsNorm && norm.in[0] == node_.out[0] &&
          norm.Int("width") == node_.Int("value_dim"))
        Take(reader);
    }
  }

 private:
  void Take(int step) {
    plan_.steps[static_cast<size_t>(step)].split = Split::kHeads;
    plan_.steps[static_cast<size_t>(step)].heads_of = of_;
  }
  // Back through what works on each head by itself and is read by nothing else.
  void TakeMakers(ValueId id) {
    const int64_t head_dim = node_.Int("head_dim");
    for (int maker = uses_.ProducerOf(id); maker >= 0; maker = uses_.ProducerOf(id)) {
      const Node& node = g_.nodes[static_cast<size_t>(maker)];
      const bool by_head = (node.op == Op::kRope && node.Int("head_dim") == head_dim) ||
                           (node.op == Op::kRmsNorm && node.Int("width") == head_dim);
      if (!by_head || uses_.ReadersOf(id).size() != 1) return;
      Take(maker);
      id = node.in[0];
    }
  }

  Plan& plan_;
  const Graph& g_;
  const graph::Uses& uses_;
  const int of_;
  const Node& node_;
};

}  // namespace

void SplitByHeads(Plan& plan, int32_t rows_max) {
  if (plan.workers_per_rank == 1 || plan.bucket.rows_max > rows_max) return;
  const graph::Uses uses(plan.graph);
  for (const Step& step : plan.steps) {
    const Op op = plan.graph.nodes[static_cast<size_t>(step.node)].op;
    if (op == Op::kAttention) Splitter(plan, uses, step.node).Attention();
    if (op == Op::kGatedDelta) Splitter(plan, uses, step.node).GatedDelta();
  }
}

WorkerHeads HeadsOf(const Plan& plan, const Step& step, int rank, int worker) {
  const Graph& g = plan.graph;
  const Heads heads = HeadsOf(g, g.nodes[static_cast<size_t>(step.heads_of)]);
  const int64_t kv_heads = heads.kv_count(g, rank);
  const graph::ElementRange own = ElementsOf(g, g.value(heads.q), 1, rank);
  const int64_t q_first = own.begin / heads.q_dim, q_last = own.end / heads.q_dim;
  WorkerHeads out;
  out.kv_begin = kv_heads * worker / plan.workers_per_rank;
  out.kv_end = kv_heads * (worker + 1) / plan.workers_per_rank;
  // The rank's first kv head is the one that its first query head reads.
  const auto query = [&](int64_t kv) {
    const int64_t h = (q_first / heads.group + kv) * heads.group;
    return std::min(std::max(h, q_first), q_last) - q_first;
  };
  out.q_begin = query(out.kv_begin);
  out.q_end = query(out.kv_end);
  return out;
}

bool HoldsQueries(const Plan& plan, const Step& step, ValueId value) {
  const Graph& g = plan.graph;
  return g.value(value).dims[1].table ==
         g.value(HeadsOf(g, g.nodes[static_cast<size_t>(step.heads_of)]).q).dims[1].table;
}

int64_t HeadDimOf(const Plan& plan, const Step& step, ValueId value) {
  const Heads heads = HeadsOf(plan.graph, plan.graph.nodes[static_cast<size_t>(step.heads_of)]);
  return HoldsQueries(plan, step, value) ? heads.q_dim : heads.kv_dim;
}

}  // namespace weft::plan
