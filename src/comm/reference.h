// The contracts of the collectives: all ranks' buffers at once, element by element, in plain loops.
// They define the bits; methods are tested for equal memory, and the reference executor runs them.
// Files: <collective>/<collective>_ref.cc.
#pragma once

#include <span>

#include "comm/method.h"
#include "comm/parts.h"

namespace weft::comm {

// y of every member. `members`: one ReduceArgs each, which share roots, merges, bias and y.
void AllReduceRef(std::span<const ReduceArgs> members);
void ReduceScatterRef(std::span<const ReduceArgs> members);

// dim 0: shards are rows; dim 1: columns. Every view of `wholes` gets everything.
void AllGatherRef(std::span<const View> shards, int dim, std::span<const View> wholes);

// Sharded(cols) -> Sharded(rows): member m gets the rows of chunks[m] from every source.
void AllToAllRef(std::span<const View> sources, std::span<const std::span<const RowChunk>> chunks,
                 std::span<const View> results);

// Rows of tokens -> rows of routes, of every member. `members` share ids and held.
void DispatchRowsRef(std::span<const DispatchRowsArgs> members);

// Rows of routes -> rows of tokens, of every member. `members` share ids and held.
void CombineRowsRef(std::span<const CombineRowsArgs> members);

void PairMaxRef(std::span<const PairMaxArgs> members);

}  // namespace weft::comm
