// fuse_add_rms_norm: the residual add and the norm that reads it are one walk over the row.
//   s = add(r, x); y = rms_norm(s, gain)   ->   s, y = add_rms_norm(r, x, gain)
// Law: both are token-wise and the sum is rounded between them exactly as before.
#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext&) { return ""; }

int Run(Graph& g, const PassContext&) {
  const Uses uses(g);
  std::vector<bool> gone(g.nodes.size(), false);
  int rewrites = 0;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Node& add = g.nodes[n];
    if (add.op != Op::kAdd) continue;
    const ValueId sum = add.out[0];
    const std::span<const int> readers = uses.ReadersOf(sum);
    if (readers.empty()) continue;
    // The add moves down to the norm, so the norm must be the first that reads the sum.
    Node& norm = g.nodes[readers.front()];
    if (norm.op != Op::kRmsNorm || norm.in[0] != sum || norm.Int("groups") != 1) continue;
    norm = Node{Op::kAddRmsNorm,
                {add.in[0], add.in[1], norm.in[1]},
                {sum, norm.out[0]},
                norm.attrs,
                norm.layer};
    gone[n] = true;
    ++rewrites;
  }
  EraseNodes(g, gone);
  return rewrites;
}

}  // namespace

extern const Pass kFuseAddRmsNorm;
const Pass kFuseAddRmsNorm{"fuse_add_rms_norm", Numerics::kExact,
                           "the residual add and its norm in one walk", Refuse, Run};

}  // namespace weft::graph
