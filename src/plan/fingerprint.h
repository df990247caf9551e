// One number for everything in a plan: two plans with the same fingerprint run the same steps on
// the same bytes of memory.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace weft::plan {

// Of model, bucket, target, workers, graph, passes (what they did, never how long), steps, layouts
// and the numerics version; Plan::fingerprint itself is left out.
uint64_t FingerprintOf(const Plan& plan);

}  // namespace weft::plan
