// A pass: ops replaced by ops, by law. One frame runs them all (run_passes.cc): switch, reason for
// refusing, rewrite count, verifier, time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace weft::graph {

enum class Numerics : uint8_t { kExact };  // other classes come with a decision page

enum class Switch : uint8_t { kAuto, kOn, kOff };

// What a pass may know of the deployment; never a time, so that plans are reproducible.
struct PassContext {
  int ranks = 1;
  int64_t tokens_max = 1;                               // of the bucket
  std::map<std::string, Switch, std::less<>> switches;  // --opt name=on|off|auto
  bool shared_memory = true;  // ranks see each other's windows while a step runs
  Switch of(std::string_view name) const {
    const auto it = switches.find(name);
    return it == switches.end() ? Switch::kAuto : it->second;
  }
};

struct Pass {
  std::string_view name;  // the switch, the metric, the page docs/optimisations/NN-name.md
  Numerics numerics;
  std::string_view summary;  // one line for --help and the docs table
  // "" or why it does not apply here.
  std::string (*refuse)(const PassContext&);
  // Rewrites `graph`; returns how many times.
  int (*run)(Graph& graph, const PassContext&);
  // Why it left a graph as it was, where there is more to say than that nothing was found; "" if
  // not.
  std::string (*why_not)(const Graph& graph, const PassContext&) = nullptr;
};

struct PassReport {
  std::string name;
  int rewrites = 0;
  std::string refusal;  // why it did not run, or found nothing
  bool asked = false;   // switched on by name, so that silence would be a lie (promise P4)
  int64_t ns = 0;
};

std::span<const Pass> AllPasses();

// Places an expanded graph on the mesh and inserts the collectives that the laws demand.
// Not a switch: without it nothing runs.
Result<Graph> InsertCollectives(const Graph& expanded, const Mesh& mesh);

// Runs every pass in order (none with `eager`), verifying after each. kInternal names the pass.
struct PassRun {
  Graph graph;
  std::vector<PassReport> reports;
};
Result<PassRun> RunPasses(Graph placed, const PassContext& context, bool eager);

// Helpers of rewrites.
// A new value like `id`, named with the suffix.
ValueId AddLike(Graph& graph, ValueId id, std::string_view suffix);
// A bit for every axis of the mesh.
int64_t AllAxes(const Graph& graph);
// Dimension `dim` cut by all axes in the mesh's order: S(0) of tokens is a rank's own rows.
Placements CutByAll(const Graph& graph, int dim);
Placements WholeOnAll(const Graph& graph);
// An all_gather or slice_rows along all axes.
Node MoveOnAll(const Graph& graph, Op op, ValueId from, ValueId to, const std::string& layer);
// Bytes of a row of a value as it crosses between ranks.
int64_t RowBytes(const Graph& graph, ValueId id);
// The node whose lone product of one weight an exchange among all ranks reduces, in the mesh's
// order, when nobody else reads its roots; else -1.
int ProductOf(const Graph& graph, const Uses& uses, const Node& exchange);
void EraseNodes(Graph& graph, const std::vector<bool>& gone);
// Drops values that nothing makes or reads, and nodes whose outputs nobody reads.
void RemoveDead(Graph& graph);

}  // namespace weft::graph
