// What a collective's method is: a pure function over pointers to all members' windows, cut into
// phases and units, as kernels are (kernels/kernel.h).
//
// Before every phase the caller lets all workers of all members meet (Fabric::Sync); within a phase
// each member's units may be run by any of its workers in any order. The unit fixes the bits. What
// a member reads from its peers may be written again only after the group's next meeting.
// `rank` in args is the member's place in its group, not its number in the mesh.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "kernels/kernel.h"
#include "kernels/moe/combine.h"
#include "kernels/reduce/finish.h"
#include "kernels/sample/argmax.h"
#include "tensor/view.h"

namespace weft::comm {

using kernels::Slice;

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kDispatchRows,
  kCombineRows,
  kPairMax
};
inline constexpr int kCollectives = 7;
std::string_view NameOf(Collective kind);  // "all_reduce"

// A rectangle that a member reads out of a peer's window.
struct Read {
  int32_t from = 0;  // the member that holds it
  int64_t rows = 0;
  int64_t bytes = 0;  // of one row
  const std::byte* data = nullptr;
  int64_t stride = 0;  // bytes from row to row
};
using ReadVisit = FunctionRef<void(const Read&)>;

template <typename Args>
struct Method {
  std::string_view name;  // "direct", "two_shot", "halving"
  Collective kind = Collective::kAllReduce;
  // "" if the method can do it, else why not. Looks at shapes only, never at memory.
  std::string (*refuse)(const Args&) = nullptr;
  int (*phases)(const Args&) = nullptr;
  // Units of this member in this phase.
  int64_t (*units)(const Args&, int phase) = nullptr;
  // Bytes that this member takes from its peers in all phases, from shapes alone: what a plan says.
  // Where data decides (the ids of routed rows) and there is none yet, the most that it can be.
  int64_t (*bytes)(const Args&) = nullptr;
  // Visits all that this member's run() reads from its peers in this phase, every byte once, none
  // of it empty. Computes with the pointers in args but never looks behind them: with equal args
  // (up to where windows begin) every member enumerates the same, so a sender knows what a reader
  // wants.
  void (*reads)(const Args&, int phase, ReadVisit) = nullptr;
  // Runs a range of units; returns the bytes it took from peers, counted where they are taken.
  int64_t (*run)(const Args&, int phase, Slice) = nullptr;
};

// Partial -> Replicated (all-reduce) or Sharded(rows) (reduce-scatter); docs/numerics.md 6.
// y = round(Tree(roots) + bias), finished once by an owner; what moves afterwards is rounded.
struct ReduceArgs {
  int rank = 0;
  int ranks = 1;
  int64_t rows = 0;  // live rows of the partials
  int64_t cols = 0;
  int root_count = 0;                   // of all members: roots of maximal subtrees, leaf order
  const int32_t* root_ranks = nullptr;  // [root_count] the member that holds it, ascending
  const uint8_t* merges = nullptr;      // [root_count] RootMerges()
  DType dtype = DType::kBF16;           // of y: bfloat16 or float32
  // reduce-scatter: member i owns rows [starts[i], starts[i+1]); nullptr: OwnedBegin().
  const int64_t* starts = nullptr;  // [ranks + 1]
  // Memory; a method's refuse and bytes do not look at it.
  float* const* roots = nullptr;     // [root_count], each [rows, cols]; halving sums in place
  const int64_t* strides = nullptr;  // [root_count] floats from row to row
  const float* bias = nullptr;       // [cols] or nullptr
  const View* y = nullptr;           // [ranks] all-reduce [rows, cols]; else [own rows, cols]
  const kernels::Kernel<kernels::FinishArgs>* finish = nullptr;  // without scratch
};

// A rectangle of bytes to be copied out of a member's window: all-gather and all-to-all.
struct Part {
  int32_t from = 0;  // the member that holds it
  int64_t rows = 0;
  int64_t bytes = 0;  // of one row
  const std::byte* data = nullptr;
  int64_t stride = 0;  // bytes from row to row
  std::byte* to = nullptr;
  int64_t to_stride = 0;
};

// parts.h fills these. A part that is its own destination is left out by its maker.
struct MoveArgs {
  int rank = 0;
  const Part* parts = nullptr;
  int count = 0;
};

// One of the arrays that hold a member's rows of a value (bytes, scales or sums of quantised rows;
// else the one).
struct RowPlane {
  const std::byte* data = nullptr;
  int64_t stride = 0;  // bytes from row to row
};
inline constexpr int kRowPlanes = 3;

// Token rows [begin, end) that lie one under the other on a member.
struct HeldRows {
  int32_t from = 0;
  int64_t begin = 0;
  int64_t end = 0;
  RowPlane planes[kRowPlanes];
};

// Sharded(rows) of tokens -> Sharded(rows) of routes: a member takes the rows of the tokens that
// are routed to its experts out of the windows of those who hold them. Who needs what follows from
// the routes, which all members have. A row is taken once, to however many of its token's experts
// it goes.
struct DispatchRowsArgs {
  int rank = 0;
  int64_t tokens = 0;
  int top_k = 1;
  const int32_t* ids = nullptr;  // [tokens, top_k] experts, alike on all members
  int32_t first = 0, count = 0;  // experts of this member
  const int32_t* place =
      nullptr;  // [tokens, top_k] where the row of each route goes, -1: elsewhere (group_routes.h)
  const HeldRows* held = nullptr;  // together all tokens, each once
  int held_count = 0;
  int planes = 1;
  int64_t bytes[kRowPlanes] = {};  // of a row
  std::byte* to[kRowPlanes] = {};
  int64_t to_stride[kRowPlanes] = {};
};

// A member's experts, and the rows of all their routes by expert, then token (group_routes.h).
struct HeldExperts {
  int32_t from = 0;
  int32_t first = 0, count = 0;
  RowPlane rows;
};
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Sharded(rows) of routes -> Sharded(rows) of tokens: the owner of a token reads what experts have
// made of it where it stands, weighs it, adds it up by the tree of all experts' leaves and rounds
// once: the bits of combine and finish. Where a route's row is follows from the routes, which all
// members have.
struct CombineRowsArgs {
  int rank = 0;
  int64_t tokens = 0;  // of all members
  const int32_t* ids =
      nullptr;  // [tokens, top_k] experts, ascending in a row, alike on all members
  const HeldExperts* held = nullptr;  // together all experts, each once, ascending
  int held_count = 0;
  const TokenRange* own = nullptr;  // of this member, ascending
  int own_count = 0;
  // Of the own tokens: top_k, weights, the columns and dtype of `rows`, and the tables of the whole
  // tree, which has one root. What else it has is the method's to set.
  kernels::CombineArgs combine;
  View y;                                                         // [own tokens, cols]
  const kernels::Kernel<kernels::CombineArgs>* kernel = nullptr;  // without scratch
  const kernels::Kernel<kernels::FinishArgs>* finish = nullptr;   // likewise
};

// Partial(max-pair) -> Replicated: per row the largest (value, lowest id) of all vocabulary shards.
struct PairMaxArgs {
  int rank = 0;
  int ranks = 1;
  int64_t rows = 0;
  const kernels::ValueIndex* const* peers = nullptr;  // [ranks], each [rows]
  kernels::ValueIndex* out = nullptr;                 // [rows], not among peers
};

// In the order in which a caller without a cost table should try them; the first refuses only what
// no method can do.
std::span<const Method<ReduceArgs>* const> AllReduceMethods();
std::span<const Method<ReduceArgs>* const> ReduceScatterMethods();
std::span<const Method<MoveArgs>* const> AllGatherMethods();
std::span<const Method<MoveArgs>* const> AllToAllMethods();
std::span<const Method<DispatchRowsArgs>* const> DispatchRowsMethods();
std::span<const Method<CombineRowsArgs>* const> CombineRowsMethods();
std::span<const Method<PairMaxArgs>* const> PairMaxMethods();

// `force`: a method's name, or empty. nullptr: the forced one refuses or does not exist.
template <typename Args>
const Method<Args>* Choose(std::span<const Method<Args>* const> list, const Args& args,
                           std::string_view force = {}) {
  for (const Method<Args>* method : list) {
    if (!force.empty() && method->name != force) continue;
    if (method->refuse(args).empty()) return method;
  }
  return nullptr;
}

}  // namespace weft::comm
