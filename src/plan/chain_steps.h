// Which steps share their work, which every worker does for itself, and where workers must wait.
#pragma once

#include "plan/plan.h"

namespace weft::plan {

// Sets split and wait of every step, and the region of every value.
// chain_steps (each_rows_max > 0): in buckets of up to that many rows, small token-wise steps are
// done by every worker into memory of its own, so that no barrier stands between them and the
// matmul that reads them. Law: token-wise ops give the same bits whoever runs them.
// interleave_lanes (lanes.h): before that, steps are put into the order that waits least. Returns
// how many overtook another. Where ranks share no memory, each exchange waits for itself: no
// meeting brings what another one moves.
int ChainSteps(Plan& plan, int32_t each_rows_max, bool interleave);

}  // namespace weft::plan
