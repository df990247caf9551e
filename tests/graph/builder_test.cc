// Covers src/graph/graph.cc src/graph/expand.cc
#include "graph/builder.h"

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"
#include "support/pass_run.h"

namespace weft::graph {
namespace {

using test::Count;

TEST(Builder, ATiedWeightIsOneParam) {
  Builder b("m", DType::kBF16);
  const ValueId w = b.Param("w", DType::kF32, {Dim::C(8), Dim::C(4)});
  EXPECT_EQ(b.Param("w", DType::kF32, {Dim::C(8), Dim::C(4)}), w);
  EXPECT_NE(b.Param("v", DType::kF32, {Dim::C(8)}), w);
  EXPECT_EQ(b.Finish({}).values.size(), 2u);
}

TEST(Builder, NamesWhatALayerMakesAndWhoAsked) {
  const Graph g = test::DecoderBody({.layers = 1});
  EXPECT_NE(g.Find("L00.attn.q_rope"), kNoValue);
  EXPECT_NE(g.Find("L00.mlp_residual"), kNoValue);
  EXPECT_EQ(g.Find("no such"), kNoValue);
  EXPECT_EQ(g.nodes[g.ProducerOf(g.Find("L00.attn.q_rope"))].layer, "L00.attn");
  EXPECT_EQ(g.ProducerOf(g.Find("ids")), -1);
  EXPECT_FALSE(g.placed());
}

TEST(Builder, BiasesAreToldByAMask) {
  Builder b("m", DType::kBF16);
  const ValueId x = b.Input("x", DType::kBF16, {Dim::T(), Dim::C(32)});
  std::vector<ValueId> w, bias{kNoValue, b.Param("b1", DType::kF32, {Dim::C(8)}), kNoValue};
  for (const char* name : {"w0", "w1", "w2"})
    w.push_back(b.Param(name, DType::kBF16, {Dim::C(8), Dim::C(32)}));
  const auto y = b.ColumnLinear(x, w, bias, {"y0", "y1", "y2"});
  const Graph g = b.Finish(y);
  const MatmulOperands operands = OperandsOf(g.nodes[0]);
  EXPECT_EQ(operands.x, x);
  EXPECT_EQ(operands.weights, w);
  EXPECT_EQ(operands.biases, bias);
  EXPECT_TRUE(Verify(g).ok());
}

TEST(Uses, AgreeWithAWalkOverAllNodes) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    const Graph g = test::Placed(test::DecoderBody(shape), 3);
    const Uses uses(g);
    for (size_t id = 0; id < g.values.size(); ++id) {
      const auto v = static_cast<ValueId>(id);
      EXPECT_EQ(uses.ProducerOf(v), g.ProducerOf(v));
      std::vector<int> readers;
      for (size_t n = 0; n < g.nodes.size(); ++n) {
        if (std::count(g.nodes[n].in.begin(), g.nodes[n].in.end(), v) > 0)
          readers.push_back(static_cast<int>(n));
      }
      EXPECT_TRUE(std::equal(readers.begin(), readers.end(), uses.ReadersOf(v).begin(),
                             uses.ReadersOf(v).end()));
    }
  }
}

TEST(Uses, ANodeThatReadsTwiceIsToldOnce) {
  Builder b("m", DType::kBF16);
  const ValueId x = b.Input("x", DType::kBF16, {Dim::T(), Dim::C(32)});
  const Graph g = b.Finish({b.Add(x, x, "y")});
  EXPECT_EQ(Uses(g).ReadersOf(x).size(), 1u);
}

TEST(Expand, LeavesNoWordOfIntention) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    const Graph g = Expand(test::DecoderBody(shape), {});
    for (const Node& node : g.nodes) EXPECT_FALSE(IsIntention(node.op)) << NameOf(node.op);
    EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
    const int delta = shape.key_heads > 0 ? (shape.layers + 1) / 2 : 0,
              moe = shape.experts > 0 ? shape.layers : 0, shared = shape.shared_expert ? moe : 0;
    EXPECT_EQ(Count(g, Op::kFinish), 2 * shape.layers + shared);
    EXPECT_EQ(Count(g, Op::kKvWrite), shape.layers - delta);
    EXPECT_EQ(Count(g, Op::kGatedDelta), delta);
    EXPECT_EQ(Count(g, Op::kExpertMatmul), 2 * moe);
    // An expert layer has its router's in place of two, and those of the expert that all tokens
    // share.
    EXPECT_EQ(Count(g, Op::kMatmul), 4 * shape.layers - moe + 2 * shared);
  }
}

TEST(Expand, QuantisesTheInputsOfQuantisedWeightsOnceEach) {
  const test::DecoderShape quantised{.layers = 1, .weights = DType::kQ8_0};
  EXPECT_EQ(Count(Expand(test::DecoderBody(quantised), {}), Op::kQuantise), 4);
  EXPECT_EQ(Count(Expand(test::DecoderBody(quantised), {.int8_activations = false}), Op::kQuantise),
            0);
  EXPECT_EQ(Count(Expand(test::DecoderBody({.layers = 1}), {}), Op::kQuantise), 0);
}

TEST(Expand, WeightsOfSeveralFormatsBecomeAMatmulEach) {
  Builder b("m", DType::kBF16);
  const ValueId x = b.Input("x", DType::kBF16, {Dim::T(), Dim::C(256)});
  const auto weight = [&](const char* name, DType dtype) {
    return b.Param(name, dtype, {Dim::C(8), Dim::C(256)});
  };
  const ValueId bias = b.Param("b", DType::kF32, {Dim::C(8)});
  const auto y = b.ColumnLinear(
      x, {weight("w0", DType::kQ4_K), weight("w1", DType::kBF16), weight("w2", DType::kQ4_K)},
      {kNoValue, kNoValue, bias}, {"y0", "y1", "y2"});
  const Graph g = Expand(b.Finish(y), {});
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).message();
  ASSERT_EQ(Count(g, Op::kMatmul), 2);
  EXPECT_EQ(Count(g, Op::kQuantise), 1);
  for (const Node& node : g.nodes) {
    if (node.op != Op::kMatmul) continue;
    const bool two = node.out.size() == 2;
    EXPECT_EQ(node.out, two ? (std::vector<ValueId>{y[0], y[2]}) : std::vector<ValueId>{y[1]});
    EXPECT_EQ(OperandsOf(node).biases.back(), two ? bias : kNoValue);
    EXPECT_EQ(g.value(node.in[0]).int8_rows, two);
  }
}

}  // namespace
}  // namespace weft::graph
