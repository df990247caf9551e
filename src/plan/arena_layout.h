// Offsets of every value in the rank's and the worker's arena.
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// REQUIRES: ChainSteps() has run. Values whose lifetimes do not meet share memory. Lifetimes are
// counted in waits, not steps: between two waits workers run apart, so memory is free only after
// the wait that follows the last read; what a peer reads only after the next wait of the group.
void LayOutArena(Plan& plan);

}  // namespace weft::plan
