// shard_argmax: a rank takes the largest of its own logits, and only (value, index) pairs cross.
//   l = all_gather(shard); y = argmax(l)   ->   p = argmax(shard); y = pair_max(p)
// Law: argmax is a max-pair reduction (largest value, lowest index), so it may be done in parts.
// One pattern for decode, draft and verify.
#include <fmt/format.h>

#include <utility>

#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  return c.ranks == 1 ? "one rank has all the logits" : "";
}

int Run(Graph& g, const PassContext&) {
  int rewrites = 0;
  std::vector<Node> nodes;
  nodes.reserve(g.nodes.size() + 1);
  std::vector<ValueId> shard(g.values.size(), kNoValue);  // of what was gathered
  for (Node& node : std::exchange(g.nodes, {})) {
    if (node.op == Op::kAllGather) shard[node.out[0]] = node.in[0];
    if (node.op != Op::kArgmax || shard[node.in[0]] == kNoValue) {
      nodes.push_back(std::move(node));
      continue;
    }
    const ValueId whole = node.out[0];
    const ValueId part = AddLike(g, whole, ".part");
    shard.push_back(kNoValue);
    g.value(part).on.assign(g.mesh.axes.size(), Placement::P());
    node.in[0] = shard[node.in[0]];
    node.out[0] = part;
    const std::string layer = node.layer;
    nodes.push_back(std::move(node));
    nodes.push_back({Op::kPairMax, {part}, {whole}, {}, layer});
    ++rewrites;
  }
  g.nodes = std::move(nodes);
  return rewrites;
}

}  // namespace

extern const Pass kShardArgmax;
const Pass kShardArgmax{"shard_argmax", Numerics::kExact,
                        "greedy: (value, index) pairs cross instead of logits", Refuse, Run};

}  // namespace weft::graph
