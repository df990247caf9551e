// What a step has to move and to compute, the least time a machine needs for that, and where the
// time of traced steps went.
//
// Thread: one caller.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/machine_limits.h"
#include "exec/model_instance.h"
#include "exec/step_trace.h"

namespace weft::cli {

// Of one step, all ranks together.
struct Work {
  double bytes = 0;                     // weights and KV, each read once
  double bf16 = 0, int8 = 0, fp32 = 0;  // operations, a multiply-add counts two

  double operations() const { return bf16 + int8 + fp32; }
  Work& operator+=(const Work& other);
};

// Rows of equal count in each of `sequences`, the first at `position`.
struct StepShape {
  int sequences = 1;
  int rows = 1;      // of each sequence
  int position = 0;  // of its first row
  int heads = 1;     // how many of the rows are head rows
  int64_t head_rows() const { return int64_t{sequences} * heads; }
};

// The work of one step of a plan's; the KV is counted to the last row's position, attention's
// operations (4 * head_dim per query head, row and key it sees) as those of the model dtype.
Work WorkOf(const plan::Plan& plan, const plan::Step& step, const StepShape& shape, int64_t rows);
Work WorkOf(const plan::Plan& plan, const StepShape& shape, int64_t rows);

// The time in ns below which this machine cannot do the work, and what bounds it ("memory", "bf16",
// "int8", "fp32"); 0 where the limits say nothing.
struct Bound {
  double ns = 0;
  std::string by;
};
Bound BoundOf(const Work& work, const MachineLimits& limits, int threads);

// What a node does, without its layer: "matmul q" makes L03.attn.q and L04.attn.q, "matmul o_proj"
// the roots of o_proj, "attention" what is called so.
std::string SiteOf(const graph::Graph& graph, const graph::Node& node);

// Mean of traced steps.
struct OpTime {
  std::string op;  // "matmul qkv", "attention", ...
  std::string impl;
  int count = 0;       // in a step
  double ns = 0;       // from start to end, mean over workers
  double wait_ns = 0;  // from ready to start
  int waits = 0;
  Work work;
};
struct TraceReport {
  int steps = 0;
  double busy_ns = 0;  // mean over workers, in a step
  double wait_ns = 0;
  int waits = 0;            // that a worker takes part in, in a step
  std::vector<OpTime> ops;  // by time, descending
};
TraceReport ReportOf(const exec::StepTrace& trace, int steps, const StepShape& shape);

Json ToJson(const Work& work);
Json ToJson(const TraceReport& report);

}  // namespace weft::cli
