#include "plan/post_exchanges.h"

#include <algorithm>

namespace weft::plan {

using graph::Graph;
using graph::Node;

void PostExchanges(Plan& plan) {
  const Graph& g = plan.graph;
  const graph::Uses uses(g);
  const int steps = static_cast<int>(plan.steps.size());
  const auto node = [&](int s) -> const Node& { return g.nodes[static_cast<size_t>(s)]; };
  const auto meets = [&](int s) {
    return plan.steps[static_cast<size_t>(s)].wait == Wait::kGroup || MeetsInside(node(s));
  };
  int last = -1;  // that had to do with peers: nothing is posted before it has ended
  for (int s = 0; s < steps; ++s) {
    Step& step = plan.steps[static_cast<size_t>(s)];
    if (step.wait == Wait::kGroup && last >= 0) {
      int behind = last;
      for (int covered = s; covered < steps && (covered == s || !meets(covered)); ++covered) {
        if (GroupSizeOf(g, node(covered)) <= 1) continue;
        for (graph::ValueId id : node(covered).in) {
          if (const int maker = uses.ProducerOf(id); maker < s) behind = std::max(behind, maker);
        }
      }
      // A meeting also covers what the workers of a rank make for one another; a transfer is such a
      // wait at its end.
      const bool covers_the_rank = plan.shared_memory && plan.workers_per_rank > 1;
      for (int between = behind + 1; covers_the_rank && between < s; ++between) {
        if (plan.steps[static_cast<size_t>(between)].split != Split::kEach) behind = between;
      }
      if (behind < s - 1) step.posted_behind = behind;
    }
    if (meets(s) || GroupSizeOf(g, node(s)) > 1) last = s;
  }
}

}  // namespace weft::plan
