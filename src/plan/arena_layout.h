// Offsets of every value in the rank's and the worker's arena.
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// REQUIRES: ChainSteps() has run. Values whose lifetimes do not meet share memory. A lifetime
// begins at the step that makes a value and ends where nobody can still be reading it: in memory of
// one worker at the last reader; where workers share, before the wait that follows the last reader,
// because between two waits they run apart; what a peer reads, before the next wait of the group.
void LayOutArena(Plan& plan);

}  // namespace weft::plan
