#include <array>

#include "base/check.h"
#include "graph/op.h"

namespace weft::graph {
namespace {

using R = PlaceRule;
// clang-format off
//                                                        token  linear mono   view   effect
constexpr std::array<OpFacts, static_cast<size_t>(Op::kCount)> kOps{{
    {Op::kEmbedding, "embedding", R::kIntention,           true,  false, false, false, false,
     "ids [T] i32, w [V,H] -> [T,H] model dtype"},
    {Op::kColumnLinear, "column_linear", R::kIntention,    true,  true,  false, false, false,
     "x [T,K], w... [N,K] (bias [N]) -> y... [T,N]; outputs may be cut"},
    {Op::kRowLinear, "row_linear", R::kIntention,          true,  true,  false, false, false,
     "x [T,K], w [N,K] (bias [N]) -> [T,N]; the reduction may be cut"},
    {Op::kLmHead, "lm_head", R::kIntention,                true,  true,  false, false, false,
     "x [R,H], w [V,H] -> logits [R,V] f32, never rounded"},
    {Op::kSelfAttention, "self_attention", R::kIntention,  false, false, false, false, true,
     "q, k, v, kv -> [T, heads*D], kv'"},
    {Op::kExperts, "experts", R::kIntention,               true,  false, false, false, false,
     "x [T,H], logits [T,E] f32, gate, up [E,I,H], down [E,H,I] (correction [E]) -> [T,H]: the k best of E"},
    {Op::kSwiGlu, "swiglu", R::kIntention,                 true,  false, false, false, false,
     "gate [T,F], up [T,F] -> [T,F]"},

    {Op::kEmbed, "embed", R::kEmbed,                       true,  false, false, false, false,
     "ids [T] i32, w [V,H] panels -> [T,H] model dtype"},
    {Op::kQuantise, "quantise", R::kElementwise,           true,  false, false, false, false,
     "x [T,K] -> int8 rows with a scale and a sum per 32"},
    {Op::kMatmul, "matmul", R::kMatmul,                    true,  true,  false, false, false,
     "x [T,K], w... [N,K] (bias [N]) -> y... [T,N]; K cut: f32 roots of the leaf tree (Partial)"},
    {Op::kFinish, "finish", R::kFinish,                    true,  false, false, false, false,
     "roots [T,N] f32 (bias [N]) -> [T,N] model dtype, one rounding"},
    {Op::kRmsNorm, "rms_norm", R::kTokenwise,              true,  false, false, false, false,
     "x [T,H], gain [W] -> [T,H]; H = groups*W"},
    {Op::kAddRmsNorm, "add_rms_norm", R::kTokenwise,       true,  false, false, false, false,
     "r [T,H], x [T,H], gain [H] -> r' = round(r+x), rms_norm(r')"},
    {Op::kAdd, "add", R::kElementwise,                     true,  true,  false, false, false,
     "a, b [T,H] -> round(a+b)"},
    {Op::kRope, "rope", R::kHeads,                         true,  false, false, false, false,
     "x [T, heads*D], positions [T] -> rotated, one rounding"},
    {Op::kKvWrite, "kv_write", R::kHeads,                  true,  false, false, false, true,
     "kv, k, v [T, kv_heads*D], slots [T] -> kv'"},
    {Op::kAttention, "attention", R::kHeads,               false, false, false, false, false,
     "q [T, heads*D], kv', segments -> [T, heads*D]"},
    {Op::kSiluMul, "silu_mul", R::kElementwise,            true,  false, false, false, false,
     "gate, up [T,F] -> round(silu(gate)*up)"},
    {Op::kSigmoidMul, "sigmoid_mul", R::kElementwise,      true,  false, false, false, false,
     "x, gate [T,F] -> round(x*sigmoid(gate))"},
    {Op::kGateRows, "gate_rows", R::kTokenwise,            true,  false, false, false, false,
     "x [T,H], gate [T,1] f32 -> round(x*sigmoid(gate))"},
    {Op::kConcat, "concat", R::kTokenwise,                 true,  false, false, false, false,
     "a [T,A], b [T,B] -> [T,A+B]"},
    {Op::kGatherRows, "gather_rows", R::kWholeRow,         false, true,  false, false, false,
     "x [T,H], rows [R] -> [R,H]"},
    {Op::kArgmax, "argmax", R::kArgmax,                    true,  false, false, false, false,
     "logits [R,V] f32 -> (value, index) [R]"},
    {Op::kSample, "sample", R::kWholeRow,                  true,  false, false, false, false,
     "logits [R,V] f32, rows -> ids [R]"},
    {Op::kHashLogits, "hash_logits", R::kWholeRow,         true,  false, false, false, false,
     "logits [R,V] f32 -> XXH64 over the leaves' hashes [R]"},
    {Op::kSliceRows, "slice_rows", R::kSliceRows,          true,  true,  true,  false, false,
     "R -> S(0): a rank's own rows of what it has whole; nothing crosses"},

    {Op::kRoute, "route", R::kTokenwise,                   true,  false, false, false, false,
     "logits [T,E] f32 (correction [E]) -> ids [T,k] ascending, weights [T,k] f32"},
    {Op::kGroupRoutes, "group_routes", R::kGroupRoutes,    false, false, false, false, false,
     "ids [T,k] -> the routes [T*k] to a rank's own experts, by expert, then token"},
    {Op::kDispatch, "dispatch", R::kDispatch,              false, true,  false, false, false,
     "x [T,K], routes -> [routes,K]: the token of each"},
    {Op::kExpertMatmul, "expert_matmul", R::kExpertMatmul, false, false, false, false, false,
     "x [routes,K], routes, w... [E,N,K] -> y... [routes,N]: each by its expert's, K never cut"},
    {Op::kCombine, "combine", R::kCombine,                 true,  false, false, false, false,
     "x [routes,H], routes, ids, weights [T,k] -> f32 roots [T,H] of the experts' leaf tree (Partial)"},

    {Op::kCausalConv, "causal_conv", R::kHeads,            false, false, false, false, true,
     "conv, x [T,C], w [C,taps], segments -> silu(depthwise), conv'"},
    {Op::kGatedDelta, "gated_delta", R::kHeads,            false, false, false, false, true,
     "gdn, q, k [T,Hk*Dk], v [T,Hv*Dv], a, b [T,Hv], A, dt [Hv], segments -> [T,Hv*Dv], gdn'"},
    {Op::kGatedRmsNorm, "gated_rms_norm", R::kTokenwise,   true,  false, false, false, false,
     "x, z [T,H], gain [W] -> round(rms_norm(x)*act(z)); H = groups*W"},

    {Op::kAllReduce, "all_reduce", R::kAllReduce,          true,  false, false, false, false,
     "P [T,N] f32 (bias [N]) -> R, tree, bias, one rounding"},
    {Op::kReduceScatter, "reduce_scatter", R::kReduceScatter, true, false, false, false, false,
     "P [T,N] f32 (bias [N]) -> S(0), tree, bias, one rounding"},
    {Op::kAllGather, "all_gather", R::kAllGather,          true,  true,  true,  false, false,
     "S(d) -> R"},
    {Op::kAllToAll, "all_to_all", R::kAllToAll,            true,  true,  true,  false, false,
     "S(a) -> S(b)"},
    {Op::kDispatchRows, "dispatch_rows", R::kDispatchRows, false, true,  false, false, false,
     "x [T,K] S(0), routes, ids [T,k] -> [routes,K]: the token of each, out of its owner's rows"},
    {Op::kCombineRows, "combine_rows", R::kCombineRows,    true,  false, false, false, false,
     "x [routes,H], routes, ids [T,k], weights [T,k] -> [T,H] S(0): each token's routes out of their experts' rows, tree, one rounding"},
    {Op::kPairMax, "pair_max", R::kAllReduce,              true,  false, true,  false, false,
     "P (value, index) [R] -> R: largest value, lowest index"},

    {Op::kMatmulReduceScatter, "matmul_reduce_scatter", R::kChain, true, false, false, false, false,
     "x [T,K], w [N,K] (bias [N]) -> y S(0), roots: matmul, reduce_scatter"},
    {Op::kMatmulAllReduceNorm, "matmul_all_reduce_norm", R::kChain, true, false, false, false, false,
     "x [T,K], w [N,K], r [T,N], gain [N] (bias [N]) -> r', rms_norm(r'), y, roots: matmul, all_reduce, add_rms_norm"},
}};
// clang-format on

constexpr bool InOrder() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "the table's rows stand in the order of the enum");

}  // namespace

const OpFacts& FactsOf(Op op) {
  WEFT_CHECK(op < Op::kCount, "op {}", static_cast<int>(op));
  return kOps[static_cast<size_t>(op)];
}

std::string_view TextOf(PlaceRule rule) {
  switch (rule) {
    case R::kIntention: return "none before it is expanded";
    case R::kElementwise: return "all operands alike, R or S(any): the same";
    case R::kTokenwise:
      return "whole rows, R or S(0): the same; norms per head also S(1), cut between heads";
    case R::kMatmul: return "x R, w S(0): S(1); x S(1), w S(1): P; x R or S(0), w R: as x";
    case R::kFinish: return "P on axes of one rank, or R: R; S(0): S(0)";
    case R::kHeads: return "all operands alike, R or S(1) over heads: the same; rope also S(0)";
    case R::kEmbed:
      return "w R or S(0), the owner's leaf is read in place: R, or S(0) for a rank's own rows";
    case R::kWholeRow: return "R: R";
    case R::kArgmax: return "R: R; S(1): P";
    case R::kSliceRows: return "R: S(0)";
    case R::kGroupRoutes: return "R: S(0), routes lie where their experts do";
    case R::kDispatch: return "x R, routes S(0): S(0)";
    case R::kExpertMatmul: return "x, routes and w S(0): S(0)";
    case R::kCombine: return "x and routes S(0), ids and weights R: P";
    case R::kAllReduce: return "P: R";
    case R::kReduceScatter: return "P: S(0)";
    case R::kAllGather: return "S(d): R";
    case R::kAllToAll: return "S(a): S(b)";
    case R::kDispatchRows: return "x and routes S(0), ids R: S(0)";
    case R::kCombineRows: return "x and routes S(0), ids R, weights S(0) of own tokens: S(0)";
    case R::kChain: return "of each op of the chain, one after the other";
  }
  return "";
}

std::span<const OpFacts> AllOps() { return kOps; }

Op OpNamed(std::string_view name) {
  for (const OpFacts& facts : kOps) {
    if (facts.name == name) return facts.op;
  }
  return Op::kCount;
}

}  // namespace weft::graph
