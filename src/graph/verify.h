// The laws of placement, checked on a whole graph after every pass. A wrong rewrite is refused here
// with the rule's id and the value's name, not found later in a wrong token.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace weft::graph {

// The placement of a node's outputs by its op's rule, or why the inputs' placements are illegal.
// Exchanges say their target with attrs "to_dim" (reduce_scatter: tokens; all_to_all) and the mesh
// axes that they act on with "axes" (a bit mask; all axes if absent).
Result<std::vector<Placements>> PlaceOutputs(const Graph& graph, const Node& node);

// Structure (topological order, one producer, arity, shapes, types) and, of a placed graph, the
// placement of every value; of effects, that each version has one writer and no late reader. Rule
// ids: V1 .. V9, in verify.cc. Takes any graph, however broken.
Status Verify(const Graph& graph);

}  // namespace weft::graph
