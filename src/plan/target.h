// What a plan asks of a machine: which implementations exist for an op, and who refuses why. The
// plan never sees a kernel, so that it can be compiled for a machine that is not here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/bucket.h"

namespace weft::plan {

struct Refused {
  std::string impl;
  std::string reason;
  friend bool operator==(const Refused&, const Refused&) = default;
};

struct Choice {
  std::string impl;              // "" : nothing can do it (an error of compile)
  std::vector<Refused> refused;  // those before it in the list; of an exchange, all that cost more
  int phases = 1;                // of an exchange: ranks meet before each
  int64_t row_wire_bytes = -1;   // of an exchange, per row, all ranks; -1: all read what peers hold
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;
  // Of the costs by which Choose() decides: with another table it may decide otherwise.
  virtual uint64_t costs_hash() const { return 0; }
  virtual int workers_per_rank() const = 0;
  virtual Choice Choose(const graph::Graph& graph, const graph::Node& node,
                        const Bucket& bucket) const = 0;
  // Up to how many rows a small token-wise step is done by every worker for itself, which saves the
  // barrier that sharing it would need. 0: never.
  virtual int32_t each_rows_max() const = 0;
};

}  // namespace weft::plan
