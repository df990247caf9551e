// The order of steps: branches of a layer that do not need each other are woven into one another,
// so that what one of them waits for is covered by a wait of the other (a cooperative lane; on an
// NPU a second stream).
#pragma once

#include <vector>

#include "plan/plan.h"

namespace weft::plan {

// Who may run before whom, and what a step would wait for.
struct Weave {
  std::vector<bool> each;      // by step: every worker does all of it, into memory of its own
  std::vector<bool> exchange;  // by step: ranks meet before it
};

// Puts the plan's nodes and steps into the order that has fewest waits, found greedily: of the
// steps whose operands are made the earliest that needs no wait; else the earliest that waits for
// its rank; else an exchange. A step that comes before one that stood ahead of it gets lane 1. The
// order is a function of the plan alone, the same on every rank, so exchanges have one total order.
// Returns how many steps overtook another.
int InterleaveLanes(Plan& plan, const Weave& weave);

}  // namespace weft::plan
