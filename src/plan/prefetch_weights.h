// Which wait brings which weights nearer. A worker that waits for others reads nothing, while what
// it does next is to read weights that it knows already.
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// Rows up to which a step is bound by the weights that it reads.
inline constexpr int32_t kPrefetchRowsMax = 16;

// Sets Step::fetches of the first step and of each that waits: the next product of weights, if no
// experts lie between, of which it is known too late whose weights they read. After ChainSteps and
// PostExchanges.
void PrefetchWeights(Plan& plan);

}  // namespace weft::plan
