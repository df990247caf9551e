// Which of the live rows a value has on a rank: all of them, or the chunks that its placement gives the
// rank. A step's live count is known only when it runs, so the split is a function of it.
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
    return {graph::ChunkBegin(rows, mine_[i], chunks_), graph::ChunkBegin(rows, mine_[i] + 1, chunks_)};
  }
  int64_t Count(int64_t rows) const {
    int64_t count = 0;
    for (int i = 0; i < pieces(); ++i) count += piece(i, rows).size();
    return count;
  }
  // The first live row here. REQUIRES: one piece.
  int64_t Begin(int64_t rows) const { return piece(0, rows).begin; }
  // No rank has more of up to this many live rows; the same on every rank, so that peers know each
  // other's strides.
  int64_t Capacity(int64_t rows_max) const {
    return std::min(rows_max, pieces() * ((rows_max + chunks_ - 1) / chunks_));
  }
  // The part of a value's rows that one rank has.
  int chunks() const { return chunks_; }

 private:
  int chunks_ = 1;
  std::vector<int> mine_{0};
};

int64_t RowCapacity(const graph::Graph& graph, graph::ValueId value, int64_t rows_max);

}  // namespace weft::plan
