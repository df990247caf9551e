// Covers src/graph/passes/fuse_matmul_all_reduce_norm.cc
// Covers src/graph/passes/fuse_matmul_reduce_scatter.cc
#include <gtest/gtest.h>

#include "graph/meaning.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"
#include "support/pass_run.h"
#include "tensor/fused_limits.h"

namespace weft::graph {
namespace {

using test::Count;
using test::ReportOf;
using test::RunOn;

constexpr const char* kNorm = "fuse_matmul_all_reduce_norm";
constexpr const char* kScatter = "fuse_matmul_reduce_scatter";

TEST(FusedExchanges, GiveTheBitsOfTheirSteps) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {2, 3, 4, 6, 8}) {
      const Graph placed = test::Placed(test::DecoderBody(shape), ranks);
      const auto expected = test::Interpreter(placed).Run();
      ASSERT_TRUE(expected.ok());
      const PassRun norm = RunOn(placed, {{kNorm, Switch::kOn}}, 1);
      const PassRun scatter =
          RunOn(placed, {{kScatter, Switch::kOn}, {"sequence_parallel", Switch::kOn}},
                kFusedScatterRowsMin);
      EXPECT_GT(ReportOf(norm, kNorm).rewrites, 0);
      EXPECT_GT(ReportOf(scatter, kScatter).rewrites, 0);
      for (const PassRun* run : {&norm, &scatter}) {
        EXPECT_TRUE(SameMeaning(placed, run->graph).ok());
        const auto got = test::Interpreter(run->graph).Run();
        ASSERT_TRUE(got.ok()) << got.status().message();
        EXPECT_TRUE(*got == *expected) << ranks << " ranks\n" << Print(run->graph);
      }
    }
  }
}

TEST(FusedExchanges, TakeTheWholeChain) {
  const int layers = 3;
  const Graph placed = test::Placed(test::DecoderBody({.layers = layers, .output_bias = true}), 2);
  const PassRun run = RunOn(placed, {{kNorm, Switch::kOn}}, 1);
  // The last sum of a body has no norm behind it: that one is the head's.
  EXPECT_EQ(Count(run.graph, Op::kMatmulAllReduceNorm), 2 * layers - 1);
  EXPECT_EQ(Count(run.graph, Op::kAllReduce), 1);
  EXPECT_EQ(Count(run.graph, Op::kAddRmsNorm), 0);
  for (const Node& node : run.graph.nodes) {
    if (node.op != Op::kMatmulAllReduceNorm) continue;
    const FusedChain chain = ChainOf(node);
    EXPECT_EQ(chain.exchange.in.size(), node.layer.ends_with("attn") ? 2u : 1u)
        << "the bias is added once, by the owner";
    EXPECT_TRUE(MakesRoots(node, chain.matmul.out[0]));
    EXPECT_EQ(chain.norm.Int("groups"), 1);
  }
}

TEST(FusedExchanges, SayWhyTheyRefuse) {
  const Graph one = test::Placed(test::DecoderBody({}), 1),
              two = test::Placed(test::DecoderBody({}), 2);
  const auto why = [](const PassRun& run, const char* pass) { return ReportOf(run, pass).refusal; };
  const std::map<std::string, Switch, std::less<>> on{{kNorm, Switch::kOn},
                                                      {kScatter, Switch::kOn}};
  EXPECT_EQ(why(RunOn(one, on, 1), kNorm), "one rank has nothing to exchange");
  EXPECT_EQ(why(RunOn(two, on, kFusedNormRowsMax + 1), kNorm), "rows 41 > 40");
  EXPECT_EQ(why(RunOn(two, on, kFusedNormRowsMax), kNorm), "");
  EXPECT_EQ(why(RunOn(two, on, kFusedScatterRowsMin - 1), kScatter), "rows 127 < 128");
  EXPECT_EQ(why(RunOn(two, on, kFusedScatterRowsMin), kScatter), "nothing to rewrite")
      << "plain: nothing is scattered";
  EXPECT_EQ(why(RunOn(two, {}, 1), kNorm), "no faster than its steps where it was measured");
  PassContext processes{2, 1, on};
  processes.shared_memory = false;
  auto run = RunPasses(two, processes, false);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(why(*run, kNorm), "ranks are processes: a mirror of a window has no flags");
}

// A sum that something else reads too, or an exchange of some of the ranks, stays what it is.
TEST(FusedExchanges, LeaveWhatOthersRead) {
  Graph g = test::Placed(test::DecoderBody({}), 2);
  const auto reduce = std::find_if(g.nodes.begin(), g.nodes.end(),
                                   [](const Node& n) { return n.op == Op::kAllReduce; });
  g.outputs.push_back(reduce->out[0]);
  const PassRun all = RunOn(test::Placed(test::DecoderBody({}), 2), {{kNorm, Switch::kOn}}, 1);
  const PassRun run = RunOn(g, {{kNorm, Switch::kOn}}, 1);
  EXPECT_EQ(ReportOf(run, kNorm).rewrites, ReportOf(all, kNorm).rewrites - 1);
}

}  // namespace
}  // namespace weft::graph
