// A graph for one bucket, frozen: steps in order, implementations chosen, waits and memory laid
// out. Immutable, printable, with a fingerprint. Executed by rank teams, walked by the reference
// executor and the simulator; nothing is chosen at run time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes/pass.h"
#include "plan/bucket.h"
#include "plan/target.h"

namespace weft::plan {

inline constexpr int kNumericsVersion = 1;

// How a step's work is shared by the workers of a rank.
enum class Split : uint8_t {
  kUnits,  // the kernel's units, a static contiguous slice each
  kEach,   // every worker does all of it into memory of its own
  kHeads,  // a worker does its kv or key heads and what belongs to them (head_split.h)
};

// What a step waits for before it starts.
enum class Wait : uint8_t {
  kNone,   // it reads only what its own worker made, or what an earlier wait has covered
  kRank,   // the workers of its rank
  kGroup,  // every worker of every rank: an exchange
};

enum class Region : uint8_t {
  kNone,    // params, states and step inputs: bound by name
  kRank,    // the rank's arena, visible to peers, the same offset on every rank
  kWorker,  // the worker's arena, same offset on every worker
  kHidden,  // the boundary between body and head
};

struct Layout {
  Region region = Region::kNone;
  int64_t offset = 0;  // bytes, of the group's first column
  // Outputs of one matmul stand side by side in one buffer: the values of the group, in order; the
  // row stride is the sum of their local widths (which differ between ranks).
  std::vector<graph::ValueId> group;
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Cost {
  int64_t weight_bytes = 0;    // read once per step, all ranks together
  int64_t row_bytes = 0;       // activations moved per live row, all ranks together
  int64_t row_flops = 0;       // per live row, all ranks together
  int64_t row_wire_bytes = 0;  // between ranks, per live row, all ranks together
  friend bool operator==(const Cost&, const Cost&) = default;
};

struct Step {
  int node = 0;  // of Plan::graph
  int lane = 0;
  Split split = Split::kUnits;
  Wait wait = Wait::kNone;
  int heads_of = -1;  // of kHeads: the attention or recurrence whose heads are shared out
  int partials = 0;   // of an exchange that reduces: roots of the rank that has most
  int phases = 1;     // of an exchange: ranks meet before each
  int posted_behind =
      -1;  // of a wait of the group: the step behind which it is posted; -1: where it waits
  int fetches =
      -1;  // the matmul whose first weights are brought nearer while this step waits; -1: none
  std::string impl;
  std::vector<Refused> refused;
  Cost cost;
  friend bool operator==(const Step&, const Step&) = default;
};

// The method of an exchange that is a step by itself; behind a '+' stands the kernel that it runs.
inline std::string_view MethodOf(const Step& step) {
  return std::string_view(step.impl).substr(0, step.impl.find('+'));
}
// That kernel; of a step that exchanges nothing its only one.
inline std::string_view KernelOf(const Step& step) {
  return std::string_view(step.impl).substr(step.impl.rfind('+') + 1);
}

struct Plan {
  Bucket bucket;
  std::string target;
  uint64_t costs_hash = 0;  // of the target's cost table
  int workers_per_rank = 1;
  bool shared_memory = true;       // between ranks; else each exchange is a transfer of its own
  std::string schedule = "plain";  // of the exchanges (schedule.h)
  std::string schedule_note;       // why it is not what was asked for, "" if it is
  graph::Graph graph;
  std::vector<graph::PassReport> passes;
  std::vector<Step> steps;
  std::vector<Layout> layouts;  // by value
  int64_t rank_arena_bytes = 0;
  int64_t worker_arena_bytes = 0;
  uint64_t fingerprint = 0;  // of everything above and the numerics version

  int waits(Wait kind) const;
};

// Between its product and what it finishes, a fused step waits until all workers of all ranks are
// past every step before it.
bool MeetsInside(const graph::Node& node);
// What a fused step makes and its peers read before it ends: roots, and sums of an exchange of
// several phases.
bool PeersReadInside(const Step& step, const graph::Node& node, graph::ValueId id);

// The width of a value on a rank: how many elements of a row it has there.
int64_t LocalWidth(const graph::Graph& graph, const graph::Value& value, int rank);
// The ranks' leaf range of the K axis of a matmul's weight (the whole table if it is not cut).
struct KLeaves {
  const LeafTable* table = nullptr;  // nullptr: one leaf over K
  LeafRange range;
};
KLeaves LeavesOf(const graph::Graph& graph, graph::ValueId weight, int rank);
// The leaves over which an expert's own product sums, whoever owns it.
KLeaves ExpertLeavesOf(const graph::Graph& graph, graph::ValueId weight);

// Of a product or a combine of experts: the rank's leaves of what it sums over, and how many roots
// of maximal subtrees it hands on of each sum: 1 where it is whole, 0 if it owns no leaf.
KLeaves LeavesOf(const graph::Graph& graph, const graph::Node& maker, int rank);
int RootsOf(const graph::Graph& graph, const graph::Node& maker, int rank);

struct CompileOptions {
  bool eager = false;             // no pass, no chaining, steps in the order of the model
  bool interleave = true;         // --opt interleave_lanes
  bool post_exchanges = true;     // --opt post_exchanges
  bool prefetch_weights = false;  // --opt prefetch_weights
  std::map<std::string, graph::Switch, std::less<>> switches;
  std::string schedule = "plain", schedule_note;  // for the plan's text
  bool shared_memory = true;                      // between ranks, while a step runs
};

// Errors: kUnsupported when no implementation takes an op (with every refusal), kInternal when a
// rewrite broke a law.
Result<Plan> Compile(const graph::Graph& placed, const Bucket& bucket, const Target& target,
                     const CompileOptions& options);

// One step a line: op, layer, output, placement, implementation, bytes, FLOPs, waits; then who
// refused and what the passes did.
std::string Print(const Plan& plan);

}  // namespace weft::plan
