// The meaning of a graph, and the interpreter of tests/support that judges it by what comes out.
#include "graph/meaning.h"

#include <gtest/gtest.h>

#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"

namespace weft::graph {
namespace {

using test::DecoderBody;
using test::DecoderHead;
using test::Interpreter;
using test::Placed;

std::string Describe(const test::DecoderShape& s) {
  return fmt::format("heads {}/{} width {} {} on {}", s.heads, s.kv_heads, s.width,
                     NameOf(s.weights), NameOf(s.model_dtype));
}

TEST(Interpreter, EveryNumberOfRanksGivesTheBitsOfOne) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const Graph& source :
         {DecoderBody(shape), DecoderHead(shape, false, false), DecoderHead(shape, true, true)}) {
      const Graph one = Placed(source, 1);
      auto expected = Interpreter(one).Run();
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      for (const int ranks : {2, 3, 4, 6, 8}) {
        const Graph many = Placed(source, ranks);
        auto got = Interpreter(many).Run();
        ASSERT_TRUE(got.ok()) << Describe(shape) << " on " << ranks << ": "
                              << got.status().message();
        for (size_t o = 0; o < source.outputs.size(); ++o) {
          const std::string name = fmt::format("output {}", o);
          for (const test::Local& local : (*got)[name]) {
            EXPECT_TRUE(local == (*expected)[name][0])
                << source.model << " " << Describe(shape) << " on " << ranks;
          }
        }
      }
    }
  }
}

TEST(Meaning, IsThatOfOneRankOnEveryMesh) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const Graph& source :
         {DecoderBody(shape), DecoderHead(shape, false, true), DecoderHead(shape, true, false)}) {
      const Meaning expanded = MeaningOf(Expand(source, {}));
      for (const int ranks : {1, 2, 3, 4, 8})
        EXPECT_EQ(MeaningOf(Placed(source, ranks)), expanded) << Describe(shape);
    }
  }
}

TEST(Meaning, CoversEveryStateAndEveryOutput) {
  const Meaning m = MeaningOf(Placed(DecoderBody({.layers = 3}), 2));
  EXPECT_EQ(m.outputs.size(), 1u);
  EXPECT_EQ(m.effects.size(), 3u);
  EXPECT_TRUE(m.effects.count("kv.2"));
}

TEST(Meaning, DoesNotCareWhichAddendComesFirst) {
  Graph g = Placed(DecoderBody({}), 2);
  const Graph before = g;
  for (Node& node : g.nodes) {
    if (node.op == Op::kAdd) std::swap(node.in[0], node.in[1]);
  }
  EXPECT_TRUE(SameMeaning(before, g).ok());
}

// Each change is well-typed, so only the meaning can tell.
TEST(Meaning, ShowsEveryLawfulLookingChange) {
  const Graph before = Placed(DecoderBody({}), 2);
  const auto node_of = [](Graph& g, Op op, size_t nth) -> Node& {
    for (Node& node : g.nodes) {
      if (node.op == op && nth-- == 0) return node;
    }
    std::abort();
  };
  const auto differs = [&](const char* what, auto change) {
    Graph g = before;
    change(g);
    const Status status = SameMeaning(before, g);
    EXPECT_FALSE(status.ok()) << what;
    EXPECT_TRUE(status.message().starts_with("V10: ")) << status.message();
  };
  differs("gate and up", [&](Graph& g) {
    auto& in = node_of(g, Op::kSiluMul, 1).in;
    std::swap(in[0], in[1]);
  });
  differs("another layer's norm",
          [&](Graph& g) { node_of(g, Op::kRmsNorm, 0).in[1] = node_of(g, Op::kRmsNorm, 2).in[1]; });
  differs("epsilon", [&](Graph& g) { node_of(g, Op::kRmsNorm, 3).Set("eps", 1e-6); });
  differs("scale", [&](Graph& g) { node_of(g, Op::kAttention, 0).Set("scale", 0.5); });
  differs("keys for values", [&](Graph& g) {
    auto& in = node_of(g, Op::kKvWrite, 0).in;
    std::swap(in[1], in[2]);
  });
  differs("a leaf table", [&](Graph& g) {
    for (AxisTable& t : g.tables) {
      if (t.name == "L01.ffn") t.leaves = LeafTable::Whole(t.leaves.size());
    }
  });
  differs("the output", [&](Graph& g) { g.outputs[0] = node_of(g, Op::kAdd, 0).out[0]; });
  differs("no output", [&](Graph& g) { g.outputs.clear(); });
  differs("a state is kept", [&](Graph& g) {
    std::erase_if(g.nodes, [](const Node& n) { return n.op == Op::kKvWrite; });
  });
}

}  // namespace
}  // namespace weft::graph
