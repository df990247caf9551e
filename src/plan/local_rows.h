// Which of the live rows a value has on a rank: all of them, or the chunks that its placement gives
// the rank. A step's live count is known only when it runs, so the split is a function of it.
// Thread: plain values, immutable; nothing is allocated after construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace weft::plan {

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

class LocalRows {
 public:
  LocalRows() = default;
  LocalRows(const graph::Graph& graph, const graph::Value& value, int rank);

  // Ranges of live rows that stand one after the other on the rank, ascending; some may be empty.
  int pieces() const { return static_cast<int>(mine_.size()); }
  RowRange piece(int i, int64_t rows) const {
    return {graph::ChunkBegin(rows, mine_[i], chunks_),
            graph::ChunkBegin(rows, mine_[i] + 1, chunks_)};
  }
  int64_t Count(int64_t rows) const {
    int64_t count = 0;
    for (int i = 0; i < pieces(); ++i) count += piece(i, rows).size();
    return count;
  }
  // The first live row here. REQUIRES: one piece.
  int64_t Begin(int64_t rows) const { return piece(0, rows).begin; }
  // No rank has more of up to this many live rows; the same on every rank, so that peers know each
  // other's strides. Of routes a rank may have all.
  int64_t Capacity(int64_t rows_max) const {
    if (routes()) return rows_max * per_token_;
    return std::min(rows_max, pieces() * ((rows_max + chunks_ - 1) / chunks_));
  }
  // The part of a value's rows that one rank has; of routes on average.
  int chunks() const { return chunks_; }
  // Rows of every live token: 1, or the routes of one. Which rank has how many routes is known only
  // when they are grouped, so pieces and counts are of other values.
  int64_t per_token() const { return per_token_; }
  bool routes() const { return routes_; }

 private:
  int chunks_ = 1;
  int64_t per_token_ = 1;
  bool routes_ = false;
  std::vector<int> mine_{0};
};

int64_t RowCapacity(const graph::Graph& graph, graph::ValueId value, int64_t rows_max);

// A grouping of routes in memory, three arrays of int32 in this order: where each of the rank's
// experts begins [most experts of a rank + 1], the token of each route and the place of each
// token's routes [tokens * per token] each.
struct GroupingLayout {
  int64_t begin = 0, token = 0, place = 0;  // offsets in elements
  int64_t elements = 0;
};
GroupingLayout GroupingOf(const graph::Graph& graph, const graph::Value& grouping,
                          int64_t rows_max);
inline int64_t GroupingBytes(const graph::Graph& graph, const graph::Value& grouping,
                             int64_t rows_max) {
  return GroupingOf(graph, grouping, rows_max).elements * 4;
}
// The grouping that a value with a row for every route follows. A walk back from it.
graph::ValueId GroupingOfRoutes(const graph::Graph& graph, const graph::Uses& uses,
                                graph::ValueId rows);
// The experts of a grouping that the rank owns.
graph::ElementRange ExpertsOf(const graph::Graph& graph, const graph::Value& grouping, int rank);

}  // namespace weft::plan
