// fuse_add_rms_norm: the residual add and the norm that reads it are one walk over the row.
//   s = add(r, x); y = rms_norm(s, gain)   ->   s, y = add_rms_norm(r, x, gain)
// Law: both are token-wise and the sum is rounded between them exactly as before.
#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext&) { return ""; }

int Run(Graph& g, const PassContext&) {
  int rewrites = 0;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op != Op::kAdd) continue;
    const ValueId sum = g.nodes[n].out[0];
    for (int reader : g.ReadersOf(sum)) {
      Node& norm = g.nodes[reader];
      if (norm.op != Op::kRmsNorm || norm.Int("groups") != 1) continue;
      // The add moves down to the norm, so nothing between them may read the sum.
      bool free = true;
      for (int other : g.ReadersOf(sum)) free = free && other >= reader;
      if (!free) continue;
      Node fused{Op::kAddRmsNorm, {g.nodes[n].in[0], g.nodes[n].in[1], norm.in[1]},
                 {sum, norm.out[0]}, norm.attrs, norm.layer};
      norm = std::move(fused);
      g.nodes.erase(g.nodes.begin() + static_cast<long>(n));
      --n;
      ++rewrites;
      break;
    }
  }
  return rewrites;
}

}  // namespace

extern const Pass kFuseAddRmsNorm;
const Pass kFuseAddRmsNorm{"fuse_add_rms_norm", Numerics::kExact,
                           "the residual add and its norm in one walk", Refuse, Run};

}  // namespace weft::graph
