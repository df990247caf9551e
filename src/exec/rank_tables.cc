#include "exec/rank_tables.h"

#include <algorithm>

#include "exec/op_args.h"

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

}  // namespace

std::shared_ptr<RankTables> MakeRankTables(const Plan& plan, const Weights& weights, int rank, const ExecFaults& faults) {
  const bool in_order = faults.leaves_in_rank_order || (faults.order_by_rows && plan.bucket.rows_max > 16);
  auto tables = std::make_shared<RankTables>();
  const Graph& g = plan.graph;
  for (const plan::Step& step : plan.steps) {
    const Node& node = g.nodes[step.node];
    RankTables::OfStep& t = tables->steps.emplace_back();
    switch (node.op) {
      case Op::kMatmul: {
        const graph::MatmulOperands operands = OperandsOf(node);
        t.packed = weights.TableOf(g, operands.weights, rank);
        const plan::KLeaves leaves = plan::LeavesOf(g, operands.weights[0], rank);
        t.merges = MergesOf(leaves, in_order);
        const bool any = std::any_of(operands.biases.begin(), operands.biases.end(), [](ValueId b) { return b != graph::kNoValue; });
        for (size_t i = 0; any && i < operands.biases.size(); ++i) {
          if (operands.biases[i] == graph::kNoValue) {
            t.bias.resize(t.bias.size() + static_cast<size_t>(LocalWidth(g, g.value(node.out[i]), rank)), 0.0f);
          } else {
            const std::vector<float> part = weights.VectorOf(g, operands.biases[i], rank);
            t.bias.insert(t.bias.end(), part.begin(), part.end());
          }
        }
        break;
      }
      case Op::kEmbed: t.packed = weights.TableOf(g, {node.in[1]}, rank, /*all_ranks=*/true); break;
      case Op::kRmsNorm:
      case Op::kAddRmsNorm: {
        t.gain = weights.VectorOf(g, node.in.back(), rank);
        const LeafTable leaves = LeafTable::Make(node.Int("width"), node.Int("leaf_atom"));
        t.leaf_begin.assign(leaves.starts().begin(), leaves.starts().end());
        break;
      }
      case Op::kFinish:
      case Op::kAllReduce:
      case Op::kReduceScatter: {
        if (node.in.size() == 2) t.bias = weights.VectorOf(g, node.in[1], rank);
        const Node& matmul = g.nodes[g.ProducerOf(node.in[0])];
        const plan::KLeaves leaves = plan::LeavesOf(g, matmul.in[1], rank);
        t.roots = RootsOf(leaves, GroupSizeOf(g, node), in_order);
        break;
      }
      case Op::kAttention: {
        const int64_t head_dim = node.Int("head_dim"), group = node.Int("group");
        const Value& q = g.value(node.in[0]);
        const graph::ElementRange own = ElementsOf(g, q, 1, rank);
        const int64_t first = own.begin / head_dim, last = own.end / head_dim;
        for (int64_t h = first; h < last; ++h) t.kv_of_head.push_back(static_cast<int32_t>(h / group - first / group));
        break;
      }
      case Op::kSample: {
        const LeafTable& leaves = g.tables[g.value(node.in[0]).dims[1].table].leaves;
        t.leaf_begin.assign(leaves.starts().begin(), leaves.starts().end());
        break;
      }
      default: break;
    }
  }
  return tables;
}

}  // namespace weft::exec
