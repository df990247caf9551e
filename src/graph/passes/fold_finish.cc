// fold_finish: where a rank has all leaves the matmul adds its own leaf roots and rounds; no fp32
// roots in memory.
//   r = matmul(x, w); y = finish(r, bias)   ->   y = matmul(x, w, bias) {finish}
// Law: the tree and the rounding are the same ops in the same order, done where the roots are made.
#include <fmt/format.h>

#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext&) { return ""; }

std::string Why(const Graph&, const PassContext& c) {
  return c.ranks > 1 ? fmt::format("{} ranks: the roots must cross between them first", c.ranks)
                     : "";
}

int Run(Graph& g, const PassContext&) {
  const Uses uses(g);  // nodes are changed in place, so it stays true
  int rewrites = 0;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op != Op::kFinish) continue;
    const ValueId roots = g.nodes[n].in[0];
    const int producer = uses.ProducerOf(roots);
    if (producer < 0 || g.nodes[producer].op != Op::kMatmul) continue;
    if (uses.ReadersOf(roots).size() != 1) continue;
    Node matmul = g.nodes[producer];
    std::erase_if(matmul.attrs, [](const Attr& a) { return a.key == "roots"; });
    matmul.Set("finish", int64_t{1});
    if (g.nodes[n].in.size() == 2) {
      matmul.in.push_back(g.nodes[n].in[1]);
      matmul.Set("biases", int64_t{1});
    }
    matmul.out = {g.nodes[n].out[0]};
    g.nodes[n] = std::move(matmul);
    ++rewrites;
  }
  return rewrites;
}

}  // namespace

extern const Pass kFoldFinish;
const Pass kFoldFinish{"fold_finish",
                       Numerics::kExact,
                       "where a rank has all leaves: matmuls finish their own reduction tree",
                       Refuse,
                       Run,
                       Why};

}  // namespace weft::graph
