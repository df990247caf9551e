// How long a step of a plan takes on the machine of a cost table: what `--schedule auto` compares.
//
// Only differences between plans of one bucket matter, so what is alike in all of them (attention,
// the KV cache) counts nothing. Thread: pure functions.
#pragma once

#include <cstdint>

#include "plan/cost_table.h"
#include "plan/plan.h"

namespace weft::plan {

// ns of a step with `rows` live rows: the busiest rank's products (the slower of streaming its
// weights and of its multiplications), its walks over rows, its exchanges, and every meeting.
double EstimateNs(const Plan& plan, const CostTable& costs, int64_t rows);

}  // namespace weft::plan
