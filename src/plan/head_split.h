// Which heads a worker takes where a rank's attention is shared out by kv head.
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// In buckets of up to rows_max rows: attention, what writes its cache, and the ropes and head norms
// that feed both, get Split::kHeads. A worker takes the same kv heads, and the query heads that
// read them, in all of these steps, so none of them waits for another. Law: heads do not meet
// before o_proj. Attention itself is left out where it would be shared out less evenly than by its
// units of (sequence, kv head): more than one row, and kv heads that the workers do not divide.
void SplitByHeads(Plan& plan, int32_t rows_max);

// Heads of one worker on one rank, counted on that rank.
struct WorkerHeads {
  int64_t kv_begin = 0, kv_end = 0;
  int64_t q_begin = 0, q_end = 0;
};
// REQUIRES: step.split is kHeads.
WorkerHeads HeadsOf(const Plan& plan, const Step& step, int rank, int worker);
// Does the value hold a column per query head (and not per kv head) of that step's attention?
bool HoldsQueries(const Plan& plan, const Step& step, graph::ValueId value);

}  // namespace weft::plan
