// The steps that methods of all-reduce and reduce-scatter are made of. Internal to comm and fused.
//
// The unit is kReduceBlock columns of one row: 4 cache lines of a partial, 2 of a bf16 result, so
// that no two workers write one line of a result with aligned rows.
#pragma once

#include <string>

#include "comm/method.h"
#include "comm/rectangles.h"

namespace weft::comm {

inline constexpr int64_t kReduceBlock = 64;

// Of the whole [rows, cols].
inline int64_t ReduceUnits(const ReduceArgs& a) { return a.rows * BlocksOf(a.cols, kReduceBlock); }
// Units that member `i` owns, in the whole matrix: shares of an all-reduce, rows of a
// reduce-scatter.
Slice OwnedUnits(const ReduceArgs& a, Collective kind, int i);
int64_t ElementsOf(const ReduceArgs& a, Slice units);
int64_t RootsOfPeers(const ReduceArgs& a);

// "" or what is wrong with the shapes, for any method.
std::string RefuseReduce(const ReduceArgs& a);

// y = round(Tree(roots) + bias) for units of the whole matrix; `first_row` is y's row 0 in it.
// Returns the bytes that came from peers: those that ReadRoots tells.
void ReadRoots(const ReduceArgs& a, Slice units, ReadVisit visit);
int64_t FinishUnits(const ReduceArgs& a, Slice units, const View& y, int64_t first_row);

// Copies the units of all peers' shares from their y to ours: the second half of an all-reduce.
// `units` counts the units of the whole matrix without our own share.
int64_t GatherShares(const ReduceArgs& a, Slice units);
inline int64_t GatherShareUnits(const ReduceArgs& a) {
  const Slice own = OwnedUnits(a, Collective::kAllReduce, a.rank);
  return ReduceUnits(a) - (own.end - own.begin);
}
void ReadShares(const ReduceArgs& a, ReadVisit visit);
int64_t GatherShareBytes(const ReduceArgs& a);

// Halving along the tree. Step s: members that differ in bit s add their partial sums, each for the
// half of the shares that it keeps, so after the last step a member holds its own share, finished.
// In place in the roots; the last step adds the bias and writes y.
std::string RefuseHalving(const ReduceArgs& a);
int HalvingSteps(const ReduceArgs& a);
int64_t HalvingUnits(const ReduceArgs& a, Collective kind, int step);
int64_t HalvingBytes(const ReduceArgs& a, Collective kind);
void ReadHalving(const ReduceArgs& a, Collective kind, int step, ReadVisit visit);
int64_t RunHalving(const ReduceArgs& a, Collective kind, int step, Slice units);

}  // namespace weft::comm
