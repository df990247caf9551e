// defer_gather (FlashComm1): a gather of token rows sinks through token-wise ops to where its bytes
// are least.
//   x = all_gather(s); q = quantise(x)   ->   q' = quantise(s); q = all_gather(q')
// Law: an op whose row depends on that row alone may be done before the rows meet. The gather sinks
// if all readers of its result can work on own rows and what they make has no more bytes: int8 rows
// instead of bf16, MLA's q_a and kv_a latents instead of hidden, a router's choice and int8 rows
// instead of hidden.
#include <algorithm>
#include <utility>

#include "graph/passes/own_rows.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.of("defer_gather") != Switch::kOn) return "the schedule is not fc1 or fc1+fc2";
  return c.ranks == 1 ? "one rank gathers nothing" : "";
}

// Reads one value of rows (its first operand) beside whole weights, and may do so on any rows. A
// slice of what was gathered is what stands there already.
bool WorksOnOwnRows(const Graph& g, const Node& node, ValueId rows) {
  if (node.in[0] != rows) return false;
  if (node.op == Op::kSliceRows) return g.value(node.out[0]).on == CutByAll(g, 0);
  if (node.Has("roots") || (node.op == Op::kRmsNorm && node.Int("groups") != 1)) return false;
  return RowOperands(g, node) == 1;
}

// Sinks the first gather that can; false when none can.
bool SinkOne(Graph& g) {
  const Uses uses(g);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (!GathersRows(g, g.nodes[n])) continue;
    const ValueId whole = g.nodes[n].out[0], own = g.nodes[n].in[0];
    const auto readers = uses.ReadersOf(whole);
    bool all = !readers.empty();
    int64_t bytes = 0;
    for (int reader : readers) {
      all = all && WorksOnOwnRows(g, g.nodes[reader], whole);
      if (g.nodes[reader].op == Op::kSliceRows) continue;
      for (ValueId id : g.nodes[reader].out) bytes += RowBytes(g, id);
    }
    for (ValueId id : g.outputs) all = all && id != whole;
    if (!all || bytes > RowBytes(g, whole)) continue;
    std::vector<bool> sinks(g.nodes.size());
    for (int reader : readers) sinks[reader] = true;
    std::vector<Node> old = std::exchange(g.nodes, {});
    for (size_t m = 0; m < old.size(); ++m) {
      if (m == n) continue;
      Node node = std::move(old[m]);
      if (!sinks[m]) {
        g.nodes.push_back(std::move(node));
        continue;
      }
      if (node.op == Op::kSliceRows) {
        for (Node& other : old) std::replace(other.in.begin(), other.in.end(), node.out[0], own);
        continue;
      }
      node.in[0] = own;
      std::vector<Node> gathers;
      for (ValueId& id : node.out) {
        const ValueId part = AddLike(g, id, ".rows");
        g.value(part).on = CutByAll(g, 0);
        gathers.push_back(MoveOnAll(g, Op::kAllGather, part, id, node.layer));
        id = part;
      }
      g.nodes.push_back(std::move(node));
      for (Node& gather : gathers) g.nodes.push_back(std::move(gather));
    }
    return true;
  }
  return false;
}

int Run(Graph& g, const PassContext&) {
  int rewrites = 0;
  while (SinkOne(g)) ++rewrites;
  return rewrites;
}

}  // namespace

extern const Pass kDeferGather;
const Pass kDeferGather{"defer_gather", Numerics::kExact,
                        "gathers of token rows sink to where their bytes are least", Refuse, Run};

}  // namespace weft::graph
