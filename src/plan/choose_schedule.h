// --schedule auto: the cheapest plan of a bucket by the cost table.
#pragma once

#include <functional>
#include <vector>

#include "plan/estimate.h"
#include "plan/schedule.h"

namespace weft::plan {

// A schedule has to save this part of a step's time: estimates are no finer, and what comes first
// in the list is simpler.
inline constexpr double kScheduleSavingLeast = 0.01;

using CompileRow = std::function<Result<Plan>(const BucketSchedule& row)>;

// Compiles every candidate and keeps the cheapest; its note says what each would take. Errors: of
// the first compile that fails. REQUIRES: candidates is not empty.
Result<Plan> CompileCheapest(const std::vector<BucketSchedule>& candidates, const Bucket& bucket,
                             const CostTable& costs, const CompileRow& compile);

}  // namespace weft::plan
