// fuse_matmul_all_reduce_norm: for few rows a row-parallel product, its exchange, the residual add
// and the norm are one step, cut into tiles of columns.
//   p = matmul(x, w); y = all_reduce(p); s, n = add_rms_norm(r, y)   ->   s, n =
//   matmul_all_reduce_norm(x, w, r)
// Law: the same ops on the same operands in the same order, one of which need not end before the
// next begins.
#include <fmt/format.h>

#include <algorithm>

#include "graph/passes/pass.h"
#include "tensor/fused_limits.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.ranks == 1) return "one rank has nothing to exchange";
  if (c.of("fuse_matmul_all_reduce_norm") != Switch::kOn)
    return "no faster than its steps where it was measured";
  if (!c.shared_memory) return "ranks are processes: a mirror of a window has no flags";
  if (c.tokens_max > kFusedNormRowsMax)
    return fmt::format("rows {} > {}", c.tokens_max, kFusedNormRowsMax);
  return "";
}

int Run(Graph& g, const PassContext&) {
  const Uses uses(g);  // nodes are changed in place, so it stays true
  std::vector<bool> gone(g.nodes.size(), false);
  int rewrites = 0;
  for (Node& norm : g.nodes) {
    if (norm.op != Op::kAddRmsNorm) continue;
    const ValueId y = norm.in[1];
    const int exchange = uses.ProducerOf(y);
    if (exchange < 0 || g.nodes[exchange].op != Op::kAllReduce || uses.ReadersOf(y).size() != 1 ||
        norm.in[0] == y)
      continue;
    if (std::count(g.outputs.begin(), g.outputs.end(), y) > 0) continue;
    const int product = ProductOf(g, uses, g.nodes[exchange]);
    if (product < 0) continue;
    norm = FuseChain(g.nodes[product], g.nodes[exchange], &norm);
    gone[exchange] = gone[product] = true;
    ++rewrites;
  }
  EraseNodes(g, gone);
  return rewrites;
}

}  // namespace

extern const Pass kFuseMatmulAllReduceNorm;
const Pass kFuseMatmulAllReduceNorm{
    "fuse_matmul_all_reduce_norm", Numerics::kExact,
    "few rows: product, all-reduce, residual add and norm in one step, by tiles", Refuse, Run};

}  // namespace weft::graph
