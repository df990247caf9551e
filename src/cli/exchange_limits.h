// What exchanges between ranks cost on this machine: each collective's methods, over sizes, as a
// line.
//
// A call is timed with what it reads written anew before, as a plan does it, less the time of
// writing as much that nobody reads: half of an exchange is the writer taking its lines back.
// Thread: the bench's caller.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/machine_bench.h"
#include "cli/machine_limits.h"

namespace weft::cli {

// A size of one method.
struct ExchangePoint {
  int phases = 1;
  double kib = 0;  // that the busiest rank takes from its peers
  double ns = 0;
};
struct ExchangeFit {
  double phase_ns = 0;  // a meeting, and what a phase without bytes does
  double kib_ns = 0;
};
// ns = phases * phase_ns + kib * kib_ns with the least squares of relative errors, so that small
// sizes count as much as large ones; neither is negative. REQUIRES: two points at least, ns > 0.
ExchangeFit FitExchange(std::span<const ExchangePoint> points);

// For each method that works on so many ranks of one worker two limits, "all_reduce_phase" in ns
// and "all_reduce_kib" in ns/KiB, `how` being the method: fits to the best and to the median times.
std::vector<Limit> MeasureExchanges(MachineBench& bench);

}  // namespace weft::cli
