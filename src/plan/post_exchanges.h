// Meetings of ranks in two halves: a rank says that its part is there as soon as it is, does what
// needs no peer, and waits only where it reads theirs (post and wait; on an NPU the exchange's
// stream beside the compute stream).
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// Sets Step::posted_behind where there is something between. In shared memory one meeting covers
// all exchanges up to the next one, and is posted behind what the last of them reads; where ranks
// share none, each exchange is a transfer of its own. At most one is under way, so that exchanges
// keep one total order. After ChainSteps, before memory is laid out.
void PostExchanges(Plan& plan);

}  // namespace weft::plan
