// gather_columns: every product is cut by its outputs, and rounded activations are gathered;
// nothing is reduced, so no fp32 partials cross.
//   p = matmul(x, w); y = all_reduce(p, b)
//     ->   x' = all_gather(x); y' = matmul(x', w cut by outputs, b) {finish}; y = all_gather(y')
// Law: re-cutting a weight by outputs keeps the leaves over K and their tree, which the one rank
// that has all of them now finishes itself. Quantised rows are gathered as int8.
#include <utility>

#include "graph/passes/pass.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.of("gather_columns") != Switch::kOn) return "the schedule is not gather";
  return c.ranks == 1 ? "one rank has all the outputs" : "";
}

int Run(Graph& g, const PassContext&) {
  const Uses uses(g);
  std::vector<int> matmul_of(g.nodes.size(), -1);  // by the reduction
  std::vector<bool> gone(g.nodes.size());
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Node& node = g.nodes[n];
    if (node.op != Op::kAllReduce || uses.ReadersOf(node.in[0]).size() != 1) continue;
    const int maker = uses.ProducerOf(node.in[0]);
    if (maker < 0 || g.nodes[maker].op != Op::kMatmul ||
        uses.ReadersOf(g.nodes[maker].in[1]).size() != 1)
      continue;
    if (node.in.size() == 2 && uses.ReadersOf(node.in[1]).size() != 1) continue;
    matmul_of[n] = maker;
    gone[maker] = true;
  }
  int rewrites = 0;
  std::vector<Node> old = std::exchange(g.nodes, {});
  for (size_t n = 0; n < old.size(); ++n) {
    if (gone[n]) continue;
    if (matmul_of[n] < 0) {
      g.nodes.push_back(std::move(old[n]));
      continue;
    }
    const Node& reduction = old[n];
    Node matmul = old[matmul_of[n]];
    std::erase_if(matmul.attrs, [](const Attr& a) { return a.key == "roots"; });
    matmul.Set("finish", int64_t{1});
    const ValueId x = AddLike(g, matmul.in[0], ".gathered");
    g.value(x).on = WholeOnAll(g);
    g.nodes.push_back(MoveOnAll(g, Op::kAllGather, matmul.in[0], x, matmul.layer));
    matmul.in[0] = x;
    g.value(matmul.in[1]).on = CutByAll(g, 0);
    if (reduction.in.size() == 2) {
      matmul.in.push_back(reduction.in[1]);
      matmul.Set("biases", int64_t{1});
      g.value(reduction.in[1]).on = CutByAll(g, 0);
    }
    const ValueId columns = AddLike(g, reduction.out[0], ".columns");
    g.value(columns).on = CutByAll(g, 1);
    matmul.out = {columns};
    g.nodes.push_back(std::move(matmul));
    g.nodes.push_back(MoveOnAll(g, Op::kAllGather, columns, reduction.out[0], reduction.layer));
    ++rewrites;
  }
  return rewrites;
}

}  // namespace

extern const Pass kGatherColumns;
const Pass kGatherColumns{"gather_columns", Numerics::kExact,
                          "weights cut by outputs, activations gathered, nothing reduced", Refuse,
                          Run};

}  // namespace weft::graph
