// What a graph computes, whatever its placements: the judge of a rewrite.
//
// Every value is hashed as a term of what made it. Laws that are proven are the same term: a tree
// finished in place, by a node of its own or across ranks; an add and a norm in one walk or two; an
// exchange that only moves. Everything else - an operand, an attribute, a leaf table, a dtype - is
// part of the term, so a rewrite that touches it shows.
// Thread: any. REQUIRES of both functions: Verify() accepts the graph's structure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

struct Meaning {
  std::vector<uint64_t> outputs;  // by output
  std::map<std::string, uint64_t>
      effects;  // last version of every state that is written, by its first name
  friend bool operator==(const Meaning&, const Meaning&) = default;
};
Meaning MeaningOf(const Graph& graph);

// V10: `after` computes what `before` does. kInternal naming the output or state that differs.
Status SameMeaning(const Graph& before, const Graph& after);
Status SameMeaning(const Meaning& before, const Graph& after);

}  // namespace weft::graph
