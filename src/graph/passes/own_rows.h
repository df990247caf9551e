// Rows that a rank could make of its own tokens alone, where today all ranks make all rows of what
// was gathered. Internal to the passes.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/passes/pass.h"

namespace weft::graph {

// An all_gather of token rows among all ranks, in their order.
bool GathersRows(const Graph& g, const Node& node);
// How many operands of a node, the first ones, hold token rows that it walks one by one, reading
// nothing else but whole params: it may as well do so for some of the rows. 0: it may not.
size_t RowOperands(const Graph& g, const Node& node);

// A slice to all ranks' own rows, in their order.
bool SlicesRows(const Graph& g, const Node& node);
// Adds those of `nodes` whose results nobody reads any more once `gone` are not there.
void AddDead(const Graph& g, const Uses& uses, const std::set<int>& nodes, std::set<int>* gone);

// Finds how values of whole rows follow from gathered ones, and makes them of own rows.
class OwnRows {
 public:
  explicit OwnRows(Graph& g)
      : g_(g),
        uses_(g),
        can_(g.values.size(), Can::kUnasked),
        cloned_(g.nodes.size()),
        own_(g.values.size(), kNoValue) {}

  const Uses& uses() const { return uses_; }
  // The value is made of gathered rows by nodes that walk rows.
  bool Possible(ValueId id);
  // The nodes between the gathers and `id`, and the gathers. REQUIRES: Possible(id).
  void Collect(ValueId id, std::set<int>* nodes) const;
  // Own rows of what these nodes make are wanted: Append makes them.
  void Want(const std::set<int>& nodes);
  // Appends a node to the graph that is being made anew and, where it is wanted, its like on own
  // rows. A slice of rows that are there goes.
  void Append(Node node, int n);
  // The like on own rows alone.
  void AppendOwn(Node node);
  // REQUIRES: wanted, and appended.
  ValueId Own(ValueId id) const { return own_[static_cast<size_t>(id)]; }
  bool Known(ValueId id) const {
    return static_cast<size_t>(id) < own_.size() && own_[static_cast<size_t>(id)] != kNoValue;
  }

 private:
  // A node like it, on the same own rows, was appended: that one's results stand for its.
  bool IsThere(const Node& node);

  enum class Can : uint8_t { kUnasked, kNo, kYes };
  Graph& g_;
  const Uses uses_;
  std::vector<Can> can_;      // by value
  std::vector<bool> cloned_;  // by node
  std::vector<ValueId> own_;  // by value: the rank's own rows of it
  std::map<std::pair<Op, std::vector<ValueId>>, Node> there_;  // nodes on own rows
};

}  // namespace weft::graph
