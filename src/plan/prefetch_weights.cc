#include "plan/prefetch_weights.h"

namespace weft::plan {

using graph::Op;

void PrefetchWeights(Plan& plan) {
  if (plan.bucket.rows_max > kPrefetchRowsMax) return;
  int next = -1;
  for (int s = static_cast<int>(plan.steps.size()) - 1; s >= 0; --s) {
    Step& step = plan.steps[static_cast<size_t>(s)];
    const Op op = plan.graph.nodes[static_cast<size_t>(step.node)].op;
    if (op == Op::kMatmul) next = s;
    if (op == Op::kExpertMatmul) next = -1;
    if (s == 0 || step.wait != Wait::kNone) step.fetches = next;
  }
}

}  // namespace weft::plan
