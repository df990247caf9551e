// What this machine can do at best: the denominators of every fraction that a bench prints, and the
// profile that `weft bench machine` writes.
//
// Thread: one caller, which becomes worker 0 of a team of its own and is pinned for the time.
// Errors: no such CPU; a profile file that is not one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "plan/cost_table.h"

namespace weft::cli {

// One measured figure. Best of many short runs: on a shared machine the best is the machine, the
// median is the hour.
struct Limit {
  std::string name;  // "read", "bf16", "barrier", ...
  int threads = 1;
  int64_t bytes = 0;  // working set of all threads (read), message of a rank (exchange)
  double value = 0;
  double median = 0;
  std::string unit;  // "GB/s", "GFLOP/s", "GOP/s", "ns", "us"
  std::string how;   // instructions, method
};

struct MachineLimits {
  std::string cpu;       // "AMD EPYC"
  std::string topology;  // hwloc's line
  std::string isa;
  int cores = 0;
  std::vector<Limit> limits;

  // The figure for this many threads, or the nearest fewer; nullptr: none.
  const Limit* Find(const std::string& name, int threads) const;
  // Reading from memory: the largest working set.
  const Limit* Memory(int threads) const;
};

struct MachineOptions {
  std::vector<int> threads;            // empty: 1, 2, 4, ..., all cores
  double seconds = 0.2;                // per figure
  int64_t bytes = int64_t{512} << 20;  // the largest working set of all threads
  bool caches = true;                  // smaller working sets too
  bool exchange = true;                // barrier, and the exchanges between ranks
};
Result<MachineLimits> MeasureMachine(const MachineOptions& options);

Json ToJson(const MachineLimits& limits);
Result<MachineLimits> ReadProfile(const std::string& path);

// What the plan's choices are made from: the medians of exchanges and meetings. A profile without
// them gives an empty table. Errors: half of a pair ("all_reduce_kib" without "all_reduce_phase").
Result<plan::CostTable> CostTableOf(const MachineLimits& limits);

}  // namespace weft::cli
