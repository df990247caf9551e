// The ops and their laws. A row of the table below is all that passes, verifier, plan and docs know
// of an op: passes move data movement by these facts and never by an op's name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::graph {

enum class Op : uint8_t {
  // Words of intention: what a model file says. expand() turns each into primitive ops.
  kEmbedding,
  kColumnLinear,
  kRowLinear,
  kLmHead,
  kSelfAttention,
  kExperts,
  kSwiGlu,
  // Primitive ops.
  kEmbed,
  kQuantise,
  kMatmul,
  kFinish,
  kRmsNorm,
  kAddRmsNorm,
  kAdd,
  kRope,
  kKvWrite,
  kAttention,
  kSiluMul,
  kSigmoidMul,
  kGateRows,
  kConcat,
  kGatherRows,
  kArgmax,
  kSample,
  kHashLogits,
  kSliceRows,
  // Of experts: rows are routes, T * k of them.
  kRoute,
  kGroupRoutes,
  kDispatch,
  kExpertMatmul,
  kCombine,
  // Of the gated delta net.
  kCausalConv,
  kGatedDelta,
  kGatedRmsNorm,
  // Changes of placement.
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kDispatchRows,
  kCombineRows,
  kPairMax,
  // Chains in one step: compute and exchange interleaved by tiles.
  kMatmulReduceScatter,
  kMatmulAllReduceNorm,
  kCount,
};

// How an op's output placement follows from its inputs', one mesh axis at a time; in words:
// TextOf().
enum class PlaceRule : uint8_t {
  kIntention,
  kElementwise,
  kTokenwise,
  kMatmul,
  kFinish,
  kHeads,
  kEmbed,
  kWholeRow,
  kArgmax,
  kSliceRows,
  kGroupRoutes,
  kDispatch,
  kExpertMatmul,
  kCombine,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kDispatchRows,
  kCombineRows,
  kChain,
};

std::string_view TextOf(PlaceRule rule);

struct OpFacts {
  Op op;
  std::string_view name;
  PlaceRule rule;
  bool token_wise;  // a row of the output depends on that row of the inputs alone
  bool linear;      // commutes with a sum over ranks before rounding
  bool monotone;    // keeps the order of values (commutes with argmax)
  bool view;        // no data moves
  bool effect;      // writes a versioned state: its first operand, made anew as its last result
  std::string_view doc;  // shapes and dtype rule, one line
};

const OpFacts& FactsOf(Op op);
std::span<const OpFacts> AllOps();
// kCount if there is none.
Op OpNamed(std::string_view name);

inline std::string_view NameOf(Op op) { return FactsOf(op).name; }
inline bool IsIntention(Op op) { return op <= Op::kSwiGlu; }
inline bool IsExchange(Op op) { return op >= Op::kAllReduce && op <= Op::kPairMax; }
inline bool IsFused(Op op) {
  return op >= Op::kMatmulReduceScatter && op <= Op::kMatmulAllReduceNorm;
}

}  // namespace weft::graph
