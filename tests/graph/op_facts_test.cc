// The table of ops: what it says of each, and the placement rule of each on one mesh axis.
#include <gtest/gtest.h>

#include <set>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"

namespace weft::graph {
namespace {

TEST(OpFacts, NameEveryOpOnce) {
  std::set<std::string_view> names;
  for (const OpFacts& f : AllOps()) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_EQ(OpNamed(f.name), f.op);
    EXPECT_EQ(&FactsOf(f.op), &f);
    EXPECT_FALSE(f.doc.empty()) << f.name;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Op::kCount));
  EXPECT_EQ(OpNamed("no such op"), Op::kCount);
}

TEST(OpFacts, ExchangesAndIntentionsAreTold) {
  for (const OpFacts& f : AllOps()) {
    EXPECT_EQ(IsIntention(f.op), f.rule == PlaceRule::kIntention) << f.name;
    const bool moves = f.rule == PlaceRule::kAllReduce || f.rule == PlaceRule::kReduceScatter ||
                       f.rule == PlaceRule::kAllGather || f.rule == PlaceRule::kAllToAll ||
                       f.rule == PlaceRule::kDispatchRows || f.rule == PlaceRule::kCombineRows;
    EXPECT_EQ(IsExchange(f.op), moves) << f.name;
    const bool recurs = f.op == Op::kCausalConv || f.op == Op::kGatedDelta;
    EXPECT_EQ(f.effect, recurs || f.op == Op::kKvWrite || f.op == Op::kSelfAttention) << f.name;
    const bool regroups = f.op == Op::kGatherRows || f.op == Op::kGroupRoutes ||
                          f.op == Op::kDispatch || f.op == Op::kDispatchRows ||
                          f.op == Op::kExpertMatmul;
    EXPECT_EQ(f.token_wise,
              !recurs && !regroups && f.op != Op::kAttention && f.op != Op::kSelfAttention)
        << f.name;
    EXPECT_FALSE(f.view) << f.name << ": no op of today moves nothing";
  }
  // What a reduction may not move across is what rounds.
  for (const Op op :
       {Op::kFinish, Op::kRmsNorm, Op::kSiluMul, Op::kQuantise, Op::kRope, Op::kAllReduce})
    EXPECT_FALSE(FactsOf(op).linear);
  for (const Op op : {Op::kAllGather, Op::kAllToAll, Op::kPairMax})
    EXPECT_TRUE(FactsOf(op).monotone);
}

// What an op makes of the placements of its operands, on an axis of two ranks.
struct Rule {
  Op op;
  std::string in;        // one letter an operand: R, P, 0 for S(0), 1 for S(1)
  std::string expected;  // likewise, or the law that refuses
  std::vector<Attr> attrs = {};
};

std::string Outcome(const Rule& rule, int ranks) {
  Graph g;
  g.mesh = Mesh::Tp(ranks);
  g.tables.push_back({"t", LeafTable::Make(64, 32), -1, 0});
  Node node{rule.op, {}, {}, rule.attrs, "here"};
  for (const char c : rule.in) {
    Value v;
    v.name = fmt::format("x{}", node.in.size());
    v.dims = {Dim::T(), Dim::C(64, 0)};
    v.on = {c == 'R' ? Placement::R() : c == 'P' ? Placement::P() : Placement::S(c - '0')};
    node.in.push_back(static_cast<ValueId>(g.values.size()));
    g.values.push_back(v);
  }
  const bool two = rule.op == Op::kAddRmsNorm || rule.op == Op::kMatmulReduceScatter ||
                   rule.op == Op::kRoute || rule.op == Op::kCausalConv ||
                   rule.op == Op::kGatedDelta;
  const int outs = rule.op == Op::kMatmulAllReduceNorm ? 4 : two ? 2 : 1;
  for (int i = 0; i < outs; ++i) {
    node.out.push_back(static_cast<ValueId>(g.values.size()));
    g.values.emplace_back().name = "y";
  }
  if (rule.op == Op::kMatmul) node.Set("weights", int64_t{1});
  if (rule.op == Op::kMatmul && rule.in.size() > 2) node.Set("biases", int64_t{1});
  if (rule.op == Op::kExpertMatmul) node.Set("weights", int64_t{1});
  if ((rule.op == Op::kRmsNorm || rule.op == Op::kGatedRmsNorm) && !node.Has("groups"))
    node.Set("groups", int64_t{1});
  auto placed = PlaceOutputs(g, node);
  if (!placed.ok()) return placed.status().message().substr(0, 2);
  std::string out;
  for (const Placements& on : *placed)
    out += on[0].replicated() ? "R" : on[0].partial() ? "P" : std::to_string(on[0].dim);
  return out;
}

TEST(PlacementRules, GiveEveryOpItsOutputsPlacement) {
  const std::vector<Rule> rules{
      // element by element: whatever all operands share, unless it is still in parts
      {Op::kAdd, "RR", "R"},
      {Op::kAdd, "00", "0"},
      {Op::kAdd, "11", "1"},
      {Op::kAdd, "PP", "V6"},
      {Op::kAdd, "R0", "V5"},
      {Op::kAdd, "RP", "V5"},
      {Op::kSiluMul, "11", "1"},
      {Op::kSiluMul, "1R", "V5"},
      {Op::kSiluMul, "PP", "V6"},
      {Op::kQuantise, "1", "1"},
      {Op::kQuantise, "P", "V6"},
      // whole rows
      {Op::kRmsNorm, "RR", "R"},
      {Op::kRmsNorm, "0R", "0"},
      {Op::kRmsNorm, "1R", "V6"},
      {Op::kRmsNorm, "PR", "V6"},
      {Op::kRmsNorm, "1R", "1", {{"groups", int64_t{4}}}},
      {Op::kRmsNorm, "PR", "V6", {{"groups", int64_t{4}}}},
      {Op::kRmsNorm, "1R", "V6", {{"groups", int64_t{3}}}},
      {Op::kAddRmsNorm, "RRR", "RR"},
      {Op::kAddRmsNorm, "00R", "00"},
      {Op::kAddRmsNorm, "11R", "V6"},
      {Op::kAddRmsNorm, "R0R", "V5"},
      // products
      {Op::kMatmul, "R0", "1"},
      {Op::kMatmul, "11", "P"},
      {Op::kMatmul, "RR", "R"},
      {Op::kMatmul, "0R", "0"},
      {Op::kMatmul, "00", "V6"},
      {Op::kMatmul, "R1", "V6"},
      {Op::kMatmul, "1R", "V6"},
      {Op::kMatmul, "10", "V6"},
      {Op::kMatmul, "PR", "V6"},
      {Op::kMatmul, "P0", "V6"},
      {Op::kMatmul, "R00", "1"},
      {Op::kMatmul, "R0R", "V5"},
      {Op::kMatmul, "11R", "V6"},
      {Op::kMatmul, "RRR", "R"},
      {Op::kMatmul, "RR0", "V5"},
      {Op::kMatmul, "11", "V6", {{"finish", int64_t{1}}}},
      // heads
      {Op::kRope, "RR", "R"},
      {Op::kRope, "1R", "1"},
      {Op::kRope, "0R", "0"},
      {Op::kRope, "PR", "V6"},
      {Op::kKvWrite, "111R", "1"},
      {Op::kKvWrite, "RRRR", "R"},
      {Op::kKvWrite, "R11R", "V5"},
      {Op::kKvWrite, "11RR", "V5"},
      {Op::kKvWrite, "000R", "V6"},
      {Op::kAttention, "11R", "1"},
      {Op::kAttention, "1RR", "V5"},
      {Op::kAttention, "00R", "V6"},
      {Op::kAttention, "PPR", "V6"},
      // ends
      {Op::kEmbed, "R0", "R"},
      {Op::kEmbed, "RR", "R"},
      {Op::kGatherRows, "RR", "R"},
      {Op::kGatherRows, "0R", "V6"},
      {Op::kGatherRows, "1R", "V6"},
      {Op::kGatherRows, "PR", "V6"},
      {Op::kArgmax, "1", "P"},
      {Op::kArgmax, "R", "R"},
      {Op::kArgmax, "P", "V6"},
      {Op::kArgmax, "0", "V6"},
      {Op::kEmbed, "R0", "0", {{"axes", int64_t{1}}}},
      {Op::kEmbed, "R0", "R", {{"axes", int64_t{2}}}},
      {Op::kSample, "R", "R"},
      {Op::kSample, "1", "V6"},
      {Op::kHashLogits, "R", "R"},
      {Op::kHashLogits, "1", "V6"},
      // reductions
      {Op::kFinish, "P", "V6"},
      {Op::kFinish, "R", "R"},
      {Op::kFinish, "1", "V6"},
      {Op::kFinish, "0", "0"},
      {Op::kFinish, "R0", "V5"},
      {Op::kAllReduce, "P", "R"},
      {Op::kAllReduce, "PR", "R"},
      {Op::kAllReduce, "P0", "V5"},
      {Op::kAllReduce, "R", "V6"},
      {Op::kAllReduce, "1", "V6"},
      {Op::kReduceScatter, "P", "0"},
      {Op::kReduceScatter, "R", "V6"},
      {Op::kReduceScatter, "P0", "V5"},
      {Op::kPairMax, "P", "R"},
      {Op::kPairMax, "R", "V6"},
      // movements, on the axes that they are told
      {Op::kSliceRows, "R", "0"},
      {Op::kSliceRows, "0", "V6"},
      {Op::kSliceRows, "1", "V6"},
      {Op::kSliceRows, "P", "V6"},
      {Op::kSliceRows, "R", "R", {{"axes", int64_t{2}}}},
      {Op::kAllGather, "1", "R"},
      {Op::kAllGather, "0", "R"},
      {Op::kAllGather, "P", "V6"},
      {Op::kAllGather, "R", "V6"},
      {Op::kAllGather, "1", "1", {{"axes", int64_t{2}}}},
      {Op::kAllToAll, "1", "0", {{"to_dim", int64_t{0}}}},
      {Op::kAllToAll, "0", "1", {{"to_dim", int64_t{1}}}},
      {Op::kAllToAll, "0", "V6", {{"to_dim", int64_t{0}}}},
      {Op::kAllToAll, "P", "V6", {{"to_dim", int64_t{0}}}},
      // experts
      {Op::kRoute, "R", "RR"},
      {Op::kRoute, "0", "00"},
      {Op::kRoute, "0R", "00"},
      {Op::kRoute, "1", "V6"},
      {Op::kRoute, "P", "V6"},
      {Op::kRoute, "R0", "V5"},
      {Op::kGroupRoutes, "R", "0"},
      {Op::kGroupRoutes, "0", "V6"},
      {Op::kDispatch, "R0", "0"},
      {Op::kDispatch, "00", "V5"},
      {Op::kDispatch, "RR", "V6"},
      {Op::kDispatchRows, "00R", "0"},
      {Op::kDispatchRows, "R0R", "V6"},
      {Op::kDispatchRows, "10R", "V6"},
      {Op::kDispatchRows, "P0R", "V6"},
      {Op::kDispatchRows, "0RR", "V6"},
      {Op::kDispatchRows, "000", "V5"},
      {Op::kDispatchRows, "R0R", "0", {{"axes", int64_t{2}}}},
      {Op::kDispatchRows, "00R", "V6", {{"axes", int64_t{2}}}},
      {Op::kCombineRows, "00R0", "0"},
      {Op::kCombineRows, "00RR", "V5"},
      {Op::kCombineRows, "0000", "V5"},
      {Op::kCombineRows, "0RR0", "V5"},
      {Op::kCombineRows, "R0R0", "V6"},
      {Op::kCombineRows, "PPR0", "V6"},
      {Op::kCombineRows, "00R0", "V6", {{"axes", int64_t{2}}}},
      {Op::kExpertMatmul, "000", "0"},
      {Op::kExpertMatmul, "R00", "V5"},
      {Op::kExpertMatmul, "00R", "V5"},
      {Op::kExpertMatmul, "001", "V5"},
      {Op::kExpertMatmul, "RRR", "V6"},
      {Op::kCombine, "00RR", "P"},
      {Op::kCombine, "000R", "V5"},
      {Op::kCombine, "00R0", "V5"},
      {Op::kCombine, "R0RR", "V5"},
      {Op::kGateRows, "RR", "R"},
      {Op::kGateRows, "00", "0"},
      {Op::kGateRows, "0R", "V5"},
      {Op::kGateRows, "11", "V6"},
      {Op::kConcat, "RR", "R"},
      {Op::kConcat, "00", "0"},
      {Op::kConcat, "0R", "V5"},
      {Op::kConcat, "11", "V6"},
      {Op::kConcat, "PP", "V6"},
      // the gated delta net
      {Op::kSigmoidMul, "11", "1"},
      {Op::kSigmoidMul, "00", "0"},
      {Op::kSigmoidMul, "1R", "V5"},
      {Op::kSigmoidMul, "PP", "V6"},
      {Op::kCausalConv, "110R", "11"},
      {Op::kCausalConv, "RRRR", "RR"},
      {Op::kCausalConv, "11RR", "V5"},
      {Op::kCausalConv, "R10R", "V5"},
      {Op::kCausalConv, "000R", "V6"},
      {Op::kGatedDelta, "1111RRRRR", "11"},
      {Op::kGatedDelta, "RRRRRRRRR", "RR"},
      {Op::kGatedDelta, "11111RRRR", "V5"},
      {Op::kGatedDelta, "R111RRRRR", "V5"},
      {Op::kGatedDelta, "1111RR0RR", "V5"},
      {Op::kGatedDelta, "0000RRRRR", "V6"},
      {Op::kGatedDelta, "1RR1RRRRR", "11", {{"tiled", int64_t{1}}}},
      {Op::kGatedDelta, "1111RRRRR", "V5", {{"tiled", int64_t{1}}}},
      {Op::kGatedDelta, "1RR1RRRRR", "V5"},
      {Op::kGatedRmsNorm, "RRR", "R"},
      {Op::kGatedRmsNorm, "11R", "V6"},
      {Op::kGatedRmsNorm, "11R", "1", {{"groups", int64_t{4}}}},
      {Op::kGatedRmsNorm, "1RR", "V5"},
      {Op::kGatedRmsNorm, "RR0", "V5"},
      // chains
      {Op::kMatmulReduceScatter, "11", "0P"},
      {Op::kMatmulReduceScatter, "11R", "0P"},
      {Op::kMatmulReduceScatter, "110", "V5"},
      {Op::kMatmulReduceScatter, "RR", "V6"},
      {Op::kMatmulReduceScatter, "1R", "V6"},
      {Op::kMatmulAllReduceNorm, "11RR", "RRRP"},
      {Op::kMatmulAllReduceNorm, "11RRR", "RRRP"},
      {Op::kMatmulAllReduceNorm, "11RR0", "V5"},
      {Op::kMatmulAllReduceNorm, "110R", "V5"},
      {Op::kMatmulAllReduceNorm, "11R0", "V5"},
      {Op::kMatmulAllReduceNorm, "R0RR", "V6"},
  };
  std::set<Op> covered;
  for (const Rule& rule : rules) {
    covered.insert(rule.op);
    EXPECT_EQ(Outcome(rule, 2), rule.expected) << NameOf(rule.op) << " of " << rule.in;
  }
  for (const OpFacts& f : AllOps()) {
    if (IsIntention(f.op)) {
      EXPECT_EQ(Outcome({f.op, "RRRRRR", "V9"}, 2), "V9") << f.name;
    } else {
      EXPECT_TRUE(covered.count(f.op)) << f.name << " has no row";
    }
  }
}

TEST(PlacementRules, AreLaxOnAnAxisOfOneRank) {
  EXPECT_EQ(Outcome({Op::kFinish, "P", "R"}, 1), "R");
  EXPECT_EQ(Outcome({Op::kMatmul, "11", "R", {{"finish", int64_t{1}}}}, 1), "R");
}

// token_wise, by what comes out: a row has the same bits alone and among others. Attention too, as
// its rows are of another sequence.
TEST(TokenWise, ARowDoesNotSeeItsBatchMates) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    const Graph g = test::Placed(test::DecoderBody(shape), 2);
    test::Interpreter together(g),
        alone(g, {.ids = {99}, .positions = {0}, .slots = {8}, .head_rows = {0}});
    ASSERT_TRUE(together.Run().ok() && alone.Run().ok());
    for (const Node& node : g.nodes) {
      if (!FactsOf(node.op).token_wise && node.op != Op::kAttention) continue;
      for (const ValueId id : node.out) {
        if (g.value(id).kind == ValueKind::kState) continue;
        if (g.value(id).dims[0].sym == Sym::kRoutes) continue;  // its rows are not those of tokens
        for (int r = 0; r < 2; ++r) {
          const test::Local &many = together.at(id)[r], &one = alone.at(id)[r];
          const size_t blocks = many.roots.empty() ? 1 : many.roots.size(),
                       cols = static_cast<size_t>(many.cols);
          ASSERT_EQ(one.data.size(), blocks * cols);
          for (size_t b = 0; b < blocks; ++b) {
            EXPECT_TRUE(
                std::equal(one.data.begin() + static_cast<long>(b * cols),
                           one.data.begin() + static_cast<long>((b + 1) * cols),
                           many.data.begin() + static_cast<long>((b * many.rows + 3) * cols)))
                << g.value(id).name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::graph
