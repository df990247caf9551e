// Which heads a worker takes where a rank's attention is shared out by kv head, or its recurrence
// by key head.
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// In buckets of up to rows_max rows: attention, what writes its cache, and the ropes and head norms
// that feed both, get Split::kHeads. A worker takes the same kv heads, and the query heads that
// read them, in all of these steps, so none of them waits for another. Law: heads do not meet
// before o_proj. Attention itself is left out where it would be shared out less evenly than by its
// units of (sequence, kv head): more than one row, and kv heads that the workers do not divide.
// A gated delta rule likewise, with the convolutions before it and the norm behind it: its key
// heads in place of kv heads, its value heads in place of query heads. All of it is left out where
// the workers do not divide the key heads, and where value heads read keys in turn (`tiled`).
void SplitByHeads(Plan& plan, int32_t rows_max);

// Heads of one worker on one rank, counted on that rank.
struct WorkerHeads {
  int64_t kv_begin = 0, kv_end = 0;
  int64_t q_begin = 0, q_end = 0;
};
// REQUIRES: step.split is kHeads.
WorkerHeads HeadsOf(const Plan& plan, const Step& step, int rank, int worker);
// Does the value hold columns of query heads (and not of kv heads) of that step's attention?
bool HoldsQueries(const Plan& plan, const Step& step, graph::ValueId value);
// Columns of one head in that value.
int64_t HeadDimOf(const Plan& plan, const Step& step, graph::ValueId value);

}  // namespace weft::plan
