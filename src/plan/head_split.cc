#include "plan/head_split.h"

#include <algorithm>

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

namespace {

int64_t KvHeads(const Graph& g, const Node& attention, int rank) {
  return LocalWidth(g, g.value(attention.in[1]), rank) / attention.Int("head_dim");
}

bool Divides(const Plan& plan, const Node& attention) {
  for (int r = 0; r < plan.graph.mesh.ranks(); ++r) {
    if (KvHeads(plan.graph, attention, r) % plan.workers_per_rank != 0) return false;
  }
  return true;
}

}  // namespace

void SplitByHeads(Plan& plan, int32_t rows_max) {
  const Graph& g = plan.graph;
  if (plan.workers_per_rank == 1 || plan.bucket.rows_max > rows_max) return;
  const graph::Uses uses(g);
  for (size_t a = 0; a < plan.steps.size(); ++a) {
    const Node& attention = g.nodes[plan.steps[a].node];
    if (attention.op != Op::kAttention) continue;
    const auto take = [&](size_t step) {
      plan.steps[step].split = Split::kHeads;
      plan.steps[step].heads_of = static_cast<int>(a);
    };
    // Back through what works on each head by itself and is read by nothing else.
    const int64_t head_dim = attention.Int("head_dim");
    const auto take_makers = [&](ValueId id) {
      for (int maker = uses.ProducerOf(id); maker >= 0; maker = uses.ProducerOf(id)) {
        const Node& node = g.nodes[maker];
        const bool by_head = (node.op == Op::kRope && node.Int("head_dim") == head_dim) ||
                             (node.op == Op::kRmsNorm && node.Int("width") == head_dim);
        if (!by_head || uses.ReadersOf(id).size() != 1) return;
        take(static_cast<size_t>(maker));
        id = g.nodes[maker].in[0];
      }
    };
    if (plan.bucket.rows_max == 1 || Divides(plan, attention)) take(a);
    take_makers(attention.in[0]);
    const int writer = uses.ProducerOf(attention.in[1]);
    if (writer < 0 || g.nodes[writer].op != Op::kKvWrite) continue;
    take(static_cast<size_t>(writer));
    take_makers(g.nodes[writer].in[1]);
    take_makers(g.nodes[writer].in[2]);
  }
}

WorkerHeads HeadsOf(const Plan& plan, const Step& step, int rank, int worker) {
  const Graph& g = plan.graph;
  const Node& attention = g.nodes[plan.steps[step.heads_of].node];
  const int64_t head_dim = attention.Int("head_dim"), group = attention.Int("group");
  const int64_t kv_heads = KvHeads(g, attention, rank);
  const graph::Value& q = g.value(attention.in[0]);
  const graph::ElementRange own = ElementsOf(g, q, 1, rank);
  const int64_t q_first = own.begin / head_dim, q_last = own.end / head_dim;
  WorkerHeads out;
  out.kv_begin = kv_heads * worker / plan.workers_per_rank;
  out.kv_end = kv_heads * (worker + 1) / plan.workers_per_rank;
  // The rank's first kv head is the one that its first query head reads.
  const auto query = [&](int64_t kv) {
    const int64_t h = (q_first / group + kv) * group;
    return std::min(std::max(h, q_first), q_last) - q_first;
  };
  out.q_begin = query(out.kv_begin);
  out.q_end = query(out.kv_end);
  return out;
}

bool HoldsQueries(const Plan& plan, const Step& step, ValueId value) {
  const Graph& g = plan.graph;
  const Node& attention = g.nodes[plan.steps[step.heads_of].node];
  return g.value(value).dims[1].table == g.value(attention.in[0]).dims[1].table;
}

}  // namespace weft::plan
