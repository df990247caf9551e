// The laws of one node's operands that hold with and without placements: how many, which shapes,
// which types (V3 and V4).
#pragma once

#include <string_view>

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

// "V4: add at L00: value 'x' (R): why".
Status Broken(std::string_view rule, const Graph& graph, const Node& node, ValueId id,
              std::string_view why);

// Inputs and outputs in number and range. Everything else may only be asked of a node that passes.
Status CheckArity(const Graph& graph, const Node& node);
// REQUIRES: CheckArity.
Status CheckShapes(const Graph& graph, const Node& node);
Status CheckTypes(const Graph& graph, const Node& node);

}  // namespace weft::graph
