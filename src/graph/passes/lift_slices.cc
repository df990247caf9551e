// lift_slices: what a rank takes its own rows of is made of its own rows.
//   y S(0) = slice_rows(f(all_gather(s)))   ->   y = f(s)
// Law: f is token-wise. A shared expert whose weights are whole on every rank is such an f: its MLP
// is walked on the rank's own rows, and neither its input nor its output crosses.
#include <utility>

#include "graph/passes/own_rows.h"

namespace weft::graph {
namespace {

std::string Refuse(const PassContext& c) {
  if (c.ranks == 1) return "one rank has all the rows";
  return c.of("sequence_parallel") == Switch::kOn
             ? ""
             : "the schedule is not sp, fc1 or fc1+fc2: nothing is sliced";
}

int Run(Graph& g, const PassContext&) {
  OwnRows own(g);
  std::set<int> slices, made;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (SlicesRows(g, g.nodes[n]) && own.Possible(g.nodes[n].in[0]))
      slices.insert(static_cast<int>(n));
  }
  // Who is sliced and read whole as well would be made twice.
  for (size_t before = slices.size() + 1; slices.size() < before;) {
    before = slices.size();
    made.clear();
    for (const int n : slices) own.Collect(g.nodes[static_cast<size_t>(n)].in[0], &made);
    std::set<int> gone = slices;
    AddDead(g, own.uses(), made, &gone);
    std::erase_if(slices, [&](int n) {
      return !gone.contains(own.uses().ProducerOf(g.nodes[static_cast<size_t>(n)].in[0]));
    });
  }
  if (slices.empty()) return 0;
  own.Want(made);
  std::vector<Node> nodes = std::exchange(g.nodes, {});
  for (size_t n = 0; n < nodes.size(); ++n) own.Append(std::move(nodes[n]), static_cast<int>(n));
  return static_cast<int>(slices.size());
}

}  // namespace

extern const Pass kLiftSlices;
const Pass kLiftSlices{"lift_slices", Numerics::kExact,
                       "what a rank takes its own rows of is made of its own rows", Refuse, Run};

}  // namespace weft::graph
