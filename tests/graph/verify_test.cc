// Each law catches its own wrong rewrite, and says which value is to blame.
#include "graph/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "support/decoder_graph.h"

namespace weft::graph {
namespace {

Node& NodeOf(Graph& g, Op op, size_t nth = 0) {
  for (Node& node : g.nodes) {
    if (node.op == op && nth-- == 0) return node;
  }
  ADD_FAILURE() << "no " << NameOf(op);
  std::abort();
}

struct WrongRewrite {
  std::string rule, what;
  std::function<void(Graph&)> rewrite;
  std::string names;  // what the message must say
};

// All on a decoder of two ranks with biases everywhere and quantised weights.
std::vector<WrongRewrite> WrongRewrites() {
  return {
      {"V1", "a node moves before what it reads",
       [](Graph& g) { std::swap(g.nodes[3], g.nodes[4]); }, "read before it is made"},
      {"V1", "a node goes and its reader stays",
       [](Graph& g) { std::erase_if(g.nodes, [](const Node& n) { return n.op == Op::kSiluMul; }); },
       "silu_mul"},
      {"V1", "an id of nothing", [](Graph& g) { NodeOf(g, Op::kAdd).in[0] = 100000; },
       "no value 100000"},
      {"V1", "an output that nothing makes", [](Graph& g) { g.nodes.pop_back(); }, "mlp_residual"},
      {"V1", "an output of nothing", [](Graph& g) { g.outputs = {-7}; }, "no output -7"},
      {"V2", "two producers",
       [](Graph& g) { NodeOf(g, Op::kAdd, 1).out = NodeOf(g, Op::kAdd, 0).out; }, "made twice"},
      {"V2", "a weight is made",
       [](Graph& g) { NodeOf(g, Op::kSiluMul).out[0] = NodeOf(g, Op::kMatmul).in[1]; },
       "made twice"},
      {"V3", "a norm without its gain", [](Graph& g) { NodeOf(g, Op::kRmsNorm).in.pop_back(); },
       "1 inputs"},
      {"V3", "more weights than outputs",
       [](Graph& g) { NodeOf(g, Op::kMatmul).Set("weights", int64_t{2}); }, "for 2 weights"},
      {"V3", "a bias bit of no weight",
       [](Graph& g) { NodeOf(g, Op::kMatmul).Set("biases", int64_t{1 << 5 | 3}); }, "biases"},
      {"V3", "biased roots", [](Graph& g) { NodeOf(g, Op::kMatmul).Set("roots", int64_t{1}); },
       "neither finished nor biased"},
      {"V3", "no epsilon",
       [](Graph& g) { NodeOf(g, Op::kRmsNorm).attrs.erase(NodeOf(g, Op::kRmsNorm).attrs.begin()); },
       "'eps'"},
      {"V3", "an attribute of another type", [](Graph& g) { NodeOf(g, Op::kRope).Set("rot", 8.0); },
       "'rot'"},
      {"V4", "a weight of another width",
       [](Graph& g) { g.value(NodeOf(g, Op::kMatmul).in[1]).dims[1].n = 96; }, "has 96 inputs"},
      {"V4", "a weight with other leaves",
       [](Graph& g) { NodeOf(g, Op::kMatmul, 1).in[1] = NodeOf(g, Op::kMatmul, 3).in[1]; },
       "other leaves"},
      {"V4", "a sum of another shape",
       [](Graph& g) { NodeOf(g, Op::kAdd).in[1] = NodeOf(g, Op::kMatmul).out[0]; }, "shape"},
      {"V4", "heads that do not divide",
       [](Graph& g) { NodeOf(g, Op::kRope).Set("head_dim", int64_t{24}); }, "whole heads of 24"},
      {"V4", "a norm of half a row",
       [](Graph& g) { NodeOf(g, Op::kRmsNorm).Set("groups", int64_t{2}); }, "2 groups"},
      {"V4", "a table of another size",
       [](Graph& g) { g.tables[0].leaves = LeafTable::Make(96, 32); }, "'embed'"},
      {"V4", "a kv table that serves half",
       [](Graph& g) {
         for (AxisTable& t : g.tables) {
           if (t.follows >= 0) t.follow_width /= 2;
         }
       },
       "L00.kv_heads"},
      {"V4", "roots that are rounded",
       [](Graph& g) { g.value(NodeOf(g, Op::kMatmul, 1).out[0]).dtype = DType::kBF16; },
       "float32 roots"},
      {"V4", "int8 rows read as values",
       [](Graph& g) { NodeOf(g, Op::kRope).in[0] = NodeOf(g, Op::kQuantise).out[0]; }, "rope"},
      {"V4", "a product that is int8 rows",
       [](Graph& g) { g.value(NodeOf(g, Op::kSiluMul).out[0]).int8_rows = true; },
       "quantise alone"},
      {"V4", "a residual in another dtype",
       [](Graph& g) { g.value(NodeOf(g, Op::kAdd).out[0]).dtype = DType::kF32; }, "dtype"},
      {"V5", "a whole bias of cut outputs",
       [](Graph& g) { g.value(NodeOf(g, Op::kMatmul).in[4]).on = {Placement::R()}; },
       "its outputs stand S(1)"},
      {"V5", "keys cut, cache whole",
       [](Graph& g) { g.value(NodeOf(g, Op::kKvWrite).in[0]).on = {Placement::R()}; }, "kv.0"},
      {"V6", "no all-reduce", [](Graph& g) { NodeOf(g, Op::kAllReduce).op = Op::kFinish; },
       "P on axes of one rank, R or S(0) wanted"},
      {"V6", "finished by one rank of two",
       [](Graph& g) {
         Node& m = NodeOf(g, Op::kMatmul, 1);
         std::erase_if(m.attrs, [](const Attr& a) { return a.key == "roots"; });
         m.Set("finish", int64_t{1});
       },
       "finished by one rank of several"},
      {"V7", "a recorded placement",
       [](Graph& g) { g.value(NodeOf(g, Op::kEmbed).out[0]).on = {Placement::S(0)}; },
       "the rule gives R"},
      {"V7", "an input in parts",
       [](Graph& g) { g.value(g.Find("positions")).on = {Placement::P()}; }, "'positions'"},
      {"V5", "a gain in parts",
       [](Graph& g) { g.value(g.Find("l0.norm1")).on = {Placement::S(0)}; },
       "the gain of a norm is whole"},
      {"V6", "two axes in one place of the order",
       [](Graph& g) {
         g.mesh = Mesh{{{"otp", 1}, {"odp", 2}}};
         for (Value& v : g.values) v.on = {v.on[0], v.on[0]};
       },
       "one place of the order"},
      {"V7", "a sum over a cut without leaves",
       [](Graph& g) { g.value(NodeOf(g, Op::kMatmul).in[1]).on = {Placement::S(1)}; },
       "no leaf table"},
      {"V8", "two writers of a version",
       [](Graph& g) { NodeOf(g, Op::kKvWrite, 1).in[0] = NodeOf(g, Op::kKvWrite, 0).in[0]; },
       "has a writer already"},
      {"V8", "a late reader of a version",
       [](Graph& g) { NodeOf(g, Op::kAttention).in[1] = NodeOf(g, Op::kKvWrite).in[0]; },
       "written over"},
      {"V8", "an effect that makes no state",
       [](Graph& g) { g.value(NodeOf(g, Op::kKvWrite).out[0]).kind = ValueKind::kTemp; }, "kv.0'"},
      {"V9", "a word of intention", [](Graph& g) { NodeOf(g, Op::kSiluMul).op = Op::kSwiGlu; },
       "word of intention"},
      {"V9", "a placement too many",
       [](Graph& g) { g.value(NodeOf(g, Op::kAdd).out[0]).on.push_back(Placement::R()); },
       "2 placements on a mesh of 1 axes"},
  };
}

// On a decoder of two ranks with experts, one that all tokens share, and a gated delta net.
std::vector<WrongRewrite> WrongHybrids() {
  const auto at = [](Graph& g, Op op, size_t operand) -> Value& {
    return g.value(NodeOf(g, op).in[operand]);
  };
  return {
      {"V3", "experts without a number to choose",
       [](Graph& g) {
         std::erase_if(NodeOf(g, Op::kRoute).attrs, [](const Attr& a) { return a.key == "top_k"; });
       },
       "'top_k'"},
      {"V3", "a product of more experts' weights",
       [](Graph& g) { NodeOf(g, Op::kExpertMatmul).Set("weights", int64_t{3}); }, "for 3 weights"},
      {"V4", "more experts chosen than there are",
       [](Graph& g) { NodeOf(g, Op::kRoute).Set("top_k", int64_t{6}); }, "6 of 5 experts"},
      {"V4", "rounded router logits", [at](Graph& g) { at(g, Op::kRoute, 0).dtype = DType::kBF16; },
       "float32 logits"},
      {"V4", "weights of experts of another layer",
       [](Graph& g) {
         NodeOf(g, Op::kExpertMatmul, 0).in[2] = NodeOf(g, Op::kExpertMatmul, 2).in[2];
       },
       "E the routes' experts"},
      {"V4", "routes of another layer",
       [](Graph& g) { NodeOf(g, Op::kCombine, 1).in[1] = NodeOf(g, Op::kCombine, 0).in[1]; },
       "not the routes of these rows"},
      {"V4", "rows of tokens for rows of routes",
       [](Graph& g) { NodeOf(g, Op::kExpertMatmul).in[0] = NodeOf(g, Op::kDispatch).in[0]; },
       "not the routes of these rows"},
      {"V4", "a filter of three taps", [at](Graph& g) { at(g, Op::kCausalConv, 2).dims[1].n = 3; },
       "one tap more than the window"},
      {"V4", "a state in the model dtype",
       [at](Graph& g) { at(g, Op::kGatedDelta, 0).dtype = DType::kBF16; }, "float32 state"},
      {"V4", "gates of more heads than there are",
       [](Graph& g) { NodeOf(g, Op::kGatedDelta).Set("value_dim", int64_t{32}); }, "L00.gdn.a"},
      {"V5", "experts cut, their weights whole",
       [at](Graph& g) { at(g, Op::kExpertMatmul, 2).on = {Placement::R()}; },
       "the routes stand S(0)"},
      {"V5", "a filter whole, its channels cut",
       [at](Graph& g) { at(g, Op::kCausalConv, 2).on = {Placement::R()}; },
       "its channels stand S(1)"},
      {"V5", "gates cut by hand",
       [at](Graph& g) { at(g, Op::kGatedDelta, 6).on = {Placement::S(0)}; }, ""},
      {"V6", "experts' roots taken for a sum",
       [](Graph& g) {
         for (Node& node : g.nodes) {
           if (node.op == Op::kAllReduce &&
               g.nodes[static_cast<size_t>(g.ProducerOf(node.in[0]))].op == Op::kCombine)
             node.op = Op::kFinish;
         }
       },
       "P on axes of one rank, R or S(0) wanted"},
      {"V8", "two recurrences of one state",
       [](Graph& g) { NodeOf(g, Op::kCausalConv, 1).in[0] = NodeOf(g, Op::kCausalConv, 0).in[0]; },
       "has a writer already"},
  };
}

const test::DecoderShape kShape{.heads = 4,
                                .kv_heads = 2,
                                .weights = DType::kQ4_1,
                                .attention_bias = true,
                                .output_bias = true,
                                .mlp_bias = true};

// Each is refused by its law, which says what the message must say.
void ExpectRefused(const test::DecoderShape& shape, const std::vector<WrongRewrite>& rewrites) {
  const Graph lawful = test::Placed(test::DecoderBody(shape), 2);
  ASSERT_TRUE(Verify(lawful).ok()) << Verify(lawful).message();
  for (const WrongRewrite& wrong : rewrites) {
    Graph g = lawful;
    wrong.rewrite(g);
    const Status status = Verify(g);
    ASSERT_FALSE(status.ok()) << wrong.what;
    EXPECT_TRUE(status.message().starts_with(wrong.rule + ": "))
        << wrong.what << ": " << status.message();
    EXPECT_NE(status.message().find(wrong.names), std::string::npos)
        << wrong.what << ": " << status.message();
  }
}

TEST(Verify, EveryLawCatchesItsOwn) { ExpectRefused(kShape, WrongRewrites()); }

TEST(Verify, LawsOfExpertsAndStatesCatchTheirOwn) {
  ExpectRefused({.layers = 4,
                 .heads = 4,
                 .kv_heads = 2,
                 .experts = 5,
                 .shared_expert = true,
                 .key_heads = 2,
                 .value_heads = 4},
                WrongHybrids());
}

TEST(Verify, EveryLawHasACaseOfItsOwn) {
  std::set<std::string> seen;
  for (const WrongRewrite& wrong : WrongRewrites()) seen.insert(wrong.rule);
  EXPECT_EQ(seen, (std::set<std::string>{"V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9"}));
}

TEST(Verify, ANormPerHeadIsCutBetweenHeadsOnly) {
  for (const int ranks : {1, 2, 3}) {
    // A multi-query model has one key head: its norm has one group, on a value that follows heads.
    const Graph one =
        test::Placed(test::DecoderBody({.heads = 4, .kv_heads = 1, .head_norms = true}), ranks);
    EXPECT_TRUE(Verify(one).ok()) << Verify(one).message();
    // Four heads of 16 are four leaves; a norm over 32 would reach over a cut.
    Graph g =
        test::Placed(test::DecoderBody({.heads = 4, .kv_heads = 2, .head_norms = true}), ranks);
    Node& norm = NodeOf(g, Op::kRmsNorm, 1);
    ASSERT_EQ(norm.Int("groups"), 4);
    norm.Set("groups", int64_t{2});
    norm.Set("width", int64_t{32});
    g.value(norm.in[1]).dims[0].n = 32;
    EXPECT_TRUE(Verify(g).message().starts_with("V6: ")) << Verify(g).message();
  }
}

TEST(Verify, TakesEveryLawfulGraphInEveryForm) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const Graph& source : {test::DecoderBody(shape), test::DecoderHead(shape, false, true),
                                test::DecoderHead(shape, true, false)}) {
      EXPECT_TRUE(Verify(source).ok()) << Verify(source).message();
      EXPECT_TRUE(Verify(Expand(source, {})).ok());
      for (const int ranks : {1, 2, 3, 5, 16})
        EXPECT_TRUE(Verify(test::Placed(source, ranks)).ok());
    }
  }
}

}  // namespace
}  // namespace weft::graph
