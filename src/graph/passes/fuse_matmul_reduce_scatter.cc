// fuse_matmul_reduce_scatter: for many rows a row-parallel product and its scatter are one step,
// cut into the rows of each owner.
//   p = matmul(x, w); y = reduce_scatter(p)   ->   y = matmul_reduce_scatter(x, w)
// Law: the same ops on the same operands; an owner need not wait for rows that are not his.
#include <fmt/format.h>

#include "graph/passes/pass.h"
#include "tensor/fused_limits.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.ranks == 1) return "one rank has nothing to exchange";
  if (c.of("fuse_matmul_reduce_scatter") != Switch::kOn)
    return "no faster than its steps where it was measured";
  if (!c.shared_memory) return "ranks are processes: a mirror of a window has no flags";
  if (c.tokens_max < kFusedScatterRowsMin)
    return fmt::format("rows {} < {}", c.tokens_max, kFusedScatterRowsMin);
  return "";
}

int Run(Graph& g, const PassContext&) {
  const Uses uses(g);  // nodes are changed in place, so it stays true
  std::vector<bool> gone(g.nodes.size(), false);
  int rewrites = 0;
  for (Node& exchange : g.nodes) {
    if (exchange.op != Op::kReduceScatter) continue;
    const int product = ProductOf(g, uses, exchange);
    if (product < 0) continue;
    exchange = FuseChain(g.nodes[product], exchange, nullptr);
    gone[product] = true;
    ++rewrites;
  }
  EraseNodes(g, gone);
  return rewrites;
}

}  // namespace

extern const Pass kFuseMatmulReduceScatter;
const Pass kFuseMatmulReduceScatter{
    "fuse_matmul_reduce_scatter", Numerics::kExact,
    "many rows: a rank finishes its rows while its peers multiply theirs", Refuse, Run};

}  // namespace weft::graph
