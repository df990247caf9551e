// What an exchange takes from peers, from shapes alone: the formulas that a test compares with the
// fabric's counters (promise P2).
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "plan/plan.h"

namespace weft::plan {

// Bytes between ranks of a step that has `rows` live rows, all ranks together. Exact for what every
// rank reads directly; of methods that move in several phases the plan's figure per row (an upper
// bound by at most a byte a row); where the routes of a step decide, the most that it can be.
int64_t WireBytes(const Plan& plan, const Step& step, int64_t rows);

// The same for direct reads, of a node of any placed graph: 4 bytes a root and element where it
// reduces, the value's own bytes where it moves.
int64_t DirectWireBytes(const graph::Graph& graph, const graph::Node& node, int64_t rows);

// Rows that are dispatched: what crosses is known when their routes are. Fabrics count what was
// read.
bool IsUpperBound(const graph::Node& node);

// The node that makes these roots. A walk over all nodes.
const graph::Node& MakerOfRoots(const graph::Graph& graph, graph::ValueId roots);

}  // namespace weft::plan
