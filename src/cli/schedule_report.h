// Schedules measured in pairs with plain tensor parallelism: what a pair says, who wins, and how it
// is told. Thread: plain data and pure functions; Print writes to standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace weft::cli {

// A step that all schedules are measured on.
struct ScheduleTask {
  std::string name;  // "prefill:1024"
  int position = 0;  // of its first row
  int rows = 1;
  int block = 1;    // steps in a row before the other schedule has its turn ...
  int untimed = 0;  // ... behind so many that are not timed
  int traced = 3;
};

// A schedule at a step.
struct ScheduleResult {
  std::string schedule, taken, note;  // "fc2 otp=1"; the plan's own, and why it is another
  int64_t layer_planned = 0, planned = 0,
          counted = 0;  // bytes between ranks: of a layer; of the body
  std::optional<double> layer_formula;
  double exchange_us = 0, wait_us = 0, compute_us = 0;  // of a traced step, mean over workers
  std::vector<double> ns, plain_ns;                     // pair by pair
};

// q = 0.5: the median. REQUIRES: values.
double QuantileOf(std::vector<double> values, double q);
// Of the schedule's time over plain's, pair by pair.
double TimeOverPlain(const ScheduleResult& row, double q);
// The schedule of least time over plain's; plain if no other is faster in three of four pairs, and
// by more than plain is than itself.
std::string WinnerOf(const std::vector<ScheduleResult>& rows);

void Print(const ScheduleTask& task, const std::vector<ScheduleResult>& rows);
Json ToJson(const ScheduleTask& task, const std::vector<ScheduleResult>& rows);

}  // namespace weft::cli
