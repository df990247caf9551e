#include "exec/rank_tables.h"

#include <algorithm>

#include "base/check.h"
#include "exec/op_args.h"
#include "fused/matmul_all_reduce_norm.h"
#include "plan/local_rows.h"
#include "plan/wire_bytes.h"

namespace weft::exec {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;
using plan::LocalWidth;
using plan::Plan;

namespace {

// The merges of the leaf tree; left to right with a fault.
std::vector<uint8_t> MergesOf(const plan::KLeaves& leaves, bool in_order) {
  if (leaves.table == nullptr) return {0};
  if (!in_order) return TreeMerges(leaves.table->count(), leaves.range);
  std::vector<uint8_t> merges(leaves.range.size(), 1);
  if (!merges.empty()) merges[0] = 0;
  return merges;
}

// Of the members of a group that reduces: each holds the leaves of its place.
comm::RootLayout RootsOf(const plan::KLeaves& leaves, int members, bool in_order) {
  if (leaves.table == nullptr) return comm::MakeRootLayout(LeafTable::Whole(1), members);
  if (!in_order) return comm::MakeRootLayout(*leaves.table, members);
  comm::RootLayout out;
  for (int r = 0; r < members; ++r) {
    out.firsts.push_back(out.count());
    const LeafRange own = leaves.table->OwnedBy(r, members);
    if (own.empty()) continue;
    out.merges.push_back(out.roots.empty() ? 0 : 1);
    out.roots.push_back(own);
    out.root_ranks.push_back(r);
  }
  out.firsts.push_back(out.count());
  return out;
}

// Outputs [begin, end) of a matrix. REQUIRES: panels end there.
PackedTable ColumnsOf(const PackedTable& all, int64_t begin, int64_t end) {
  const auto panel = [&](int64_t n) {
    const auto at = std::lower_bound(all.panel_begin.begin(), all.panel_begin.end(), n);
    WEFT_CHECK(at != all.panel_begin.end() && *at == n, "output {} is inside a panel", n);
    return at - all.panel_begin.begin();
  };
  const int64_t first = panel(begin), last = panel(end),
                panels = static_cast<int64_t>(all.panel_begin.size()) - 1;
  PackedTable out;
  out.k_begin = all.k_begin;
  for (int64_t p = first; p <= last; ++p)
    out.panel_begin.push_back(all.panel_begin[p] - static_cast<int32_t>(begin));
  for (size_t leaf = 0; leaf + 1 < all.k_begin.size(); ++leaf) {
    const auto row = all.data.begin() + static_cast<int64_t>(leaf) * panels;
    out.data.insert(out.data.end(), row + first, row + last);
  }
  return out;
}

class TableMaker {
 public:
  TableMaker(const Plan& plan, const Weights& weights, int rank, const ExecFaults& faults)
      : g_(plan.graph),
        weights_(weights),
        rank_(rank),
        rows_max_(plan.bucket.rows_max),
        in_order_(faults.leaves_in_rank_order ||
                  (faults.order_by_rows && plan.bucket.rows_max > 16)) {}

  void Fill(const Node& node, RankTables::OfStep& t) const {
    switch (node.op) {
      case Op::kMatmul: return Matmul(node, t);
      case Op::kEmbed:
        t.packed = weights_.TableOf(g_, {node.in[1]}, rank_, /*all_ranks=*/true);
        return;
      case Op::kRmsNorm:
      case Op::kGatedRmsNorm:
      case Op::kAddRmsNorm: {
        t.gain = weights_.VectorOf(g_, node.in.back(), rank_);
        const LeafTable leaves = LeafTable::Make(node.Int("width"), node.Int("leaf_atom"));
        t.leaf_begin.assign(leaves.starts().begin(), leaves.starts().end());
        return;
      }
      case Op::kFinish:
      case Op::kAllReduce:
      case Op::kReduceScatter: {
        if (node.in.size() == 2) t.bias = weights_.VectorOf(g_, node.in[1], rank_);
        t.roots = RootsOf(plan::LeavesOf(g_, plan::MakerOfRoots(g_, node.in[0]), rank_),
                          GroupSizeOf(g_, node), in_order_);
        return;
      }
      case Op::kMatmulReduceScatter:
      case Op::kMatmulAllReduceNorm: {
        const graph::FusedChain chain = ChainOf(node);
        Fill(chain.matmul, t);
        Fill(chain.exchange, t);
        if (chain.norm.op == Op::kCount) return;
        Fill(chain.norm, t);
        const int64_t cols = g_.value(node.out[0]).dims[1].n;
        const bool none = plan::LeavesOf(g_, node.in[1], rank_).range.size() == 0;
        const int tiles = fused::TilesOf(rows_max_, cols);
        for (int i = 0; !none && i < tiles; ++i) {
          t.tiles.push_back(ColumnsOf(t.packed, fused::TileBegin(cols, i, tiles),
                                      fused::TileBegin(cols, i + 1, tiles)));
        }
        return;
      }
      case Op::kCausalConv: {
        const std::vector<float> filters =
            weights_.VectorOf(g_, node.in[2], rank_);  // [channels][taps]
        const auto taps = static_cast<size_t>(g_.value(node.in[2]).dims[1].n),
                   channels = filters.size() / taps;
        t.gain.resize(filters.size());
        for (size_t i = 0; i < filters.size(); ++i)
          t.gain[i % taps * channels + i / taps] = filters[i];
        return;
      }
      case Op::kGatedDelta: {
        const int64_t key_dim = node.Int("key_dim"), value_dim = node.Int("value_dim");
        const Value &k = g_.value(node.in[2]), &v = g_.value(node.in[3]);
        const int64_t keys = k.dims[1].n / key_dim, ratio = v.dims[1].n / value_dim / keys;
        const graph::ElementRange own = ElementsOf(g_, v, 1, rank_);
        const int64_t first = own.begin / value_dim, last = own.end / value_dim;
        const std::vector<float> a = weights_.VectorOf(g_, node.in[6], rank_),
                                 dt = weights_.VectorOf(g_, node.in[7], rank_);
        for (int64_t h = first; h < last; ++h) {
          t.gain.push_back(a[static_cast<size_t>(h)]);
          t.bias.push_back(dt[static_cast<size_t>(h)]);
          t.kv_of_head.push_back(
              static_cast<int32_t>(node.Has("tiled") ? h % keys : h / ratio - first / ratio));
        }
        return;
      }
      case Op::kRoute:
        if (node.in.size() == 2) t.bias = weights_.VectorOf(g_, node.in[1], rank_);
        return;
      case Op::kExpertMatmul: {
        const graph::MatmulOperands operands = OperandsOf(node);
        const graph::ElementRange own = plan::ExpertsOf(g_, g_.value(node.in[1]), rank_);
        for (int64_t e = own.begin; e < own.end; ++e) {
          t.experts.push_back(
              weights_.TableOf(g_, operands.weights, rank_, /*all_ranks=*/false, e));
        }
        int64_t n = 0;
        for (ValueId y : node.out) n += LocalWidth(g_, g_.value(y), rank_);
        const Value& w = g_.value(operands.weights[0]);
        for (const PackedTable& table : t.experts)
          t.expert_matrices.push_back(table.matrix(w.dtype, n, w.dims[2].n));
        t.merges = MergesOf(plan::ExpertLeavesOf(g_, operands.weights[0]), in_order_);
        return;
      }
      case Op::kCombine: {
        const plan::KLeaves leaves = plan::LeavesOf(g_, node, rank_);
        t.merges = MergesOf(leaves, in_order_);
        for (int l = leaves.range.begin; l <= leaves.range.end; ++l)
          t.expert_begin.push_back(static_cast<int32_t>(leaves.table->start(l)));
        return;
      }
      case Op::kCombineRows: {
        const LeafTable& experts = g_.tables[g_.value(node.in[1]).dims[0].table].leaves;
        t.merges = MergesOf({&experts, {0, experts.count()}}, in_order_);
        for (const int64_t start : experts.starts())
          t.expert_begin.push_back(static_cast<int32_t>(start));
        return;
      }
      case Op::kAttention: {
        const int64_t head_dim = node.Int("head_dim"), group = node.Int("group");
        const Value& q = g_.value(node.in[0]);
        const graph::ElementRange own = ElementsOf(g_, q, 1, rank_);
        const int64_t first = own.begin / head_dim, last = own.end / head_dim;
        for (int64_t h = first; h < last; ++h)
          t.kv_of_head.push_back(static_cast<int32_t>(h / group - first / group));
        return;
      }
      case Op::kSample: {
        const LeafTable& leaves = g_.tables[g_.value(node.in[0]).dims[1].table].leaves;
        t.leaf_begin.assign(leaves.starts().begin(), leaves.starts().end());
        return;
      }
      default: return;
    }
  }

 private:
  void Matmul(const Node& node, RankTables::OfStep& t) const {
    const graph::MatmulOperands operands = OperandsOf(node);
    t.packed = weights_.TableOf(g_, operands.weights, rank_);
    t.merges = MergesOf(plan::LeavesOf(g_, operands.weights[0], rank_), in_order_);
    const bool any = std::any_of(operands.biases.begin(), operands.biases.end(),
                                 [](ValueId b) { return b != graph::kNoValue; });
    for (size_t i = 0; any && i < operands.biases.size(); ++i) {
      if (operands.biases[i] == graph::kNoValue) {
        t.bias.resize(
            t.bias.size() + static_cast<size_t>(LocalWidth(g_, g_.value(node.out[i]), rank_)),
            0.0f);
      } else {
        const std::vector<float> part = weights_.VectorOf(g_, operands.biases[i], rank_);
        t.bias.insert(t.bias.end(), part.begin(), part.end());
      }
    }
  }

  const Graph& g_;
  const Weights& weights_;
  const int rank_;
  const int64_t rows_max_;
  const bool in_order_;
};

}  // namespace

std::shared_ptr<RankTables> MakeRankTables(const Plan& plan, const Weights& weights, int rank,
                                           const ExecFaults& faults) {
  auto tables = std::make_shared<RankTables>();
  const TableMaker maker(plan, weights, rank, faults);
  for (const plan::Step& step : plan.steps)
    maker.Fill(plan.graph.nodes[step.node], tables->steps.emplace_back());
  return tables;
}

}  // namespace weft::exec
