// Covers src/graph/passes/
// The frame and the three rewrites: each leaves the meaning and the bits, fires where it should and
// nowhere else.
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/meaning.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"
#include "support/pass_run.h"

namespace weft::graph {
namespace {

using test::Count;
using test::ReportOf;
using test::RunOn;
using test::Switches;

TEST(Passes, AllOnAndEachAloneGiveTheBitsOfNone) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {1, 2, 3}) {
      for (const Graph& source : {test::DecoderBody(shape), test::DecoderHead(shape, false, true),
                                  test::DecoderHead(shape, true, false)}) {
        const Graph placed = test::Placed(source, ranks);
        const auto expected = test::Interpreter(placed).Run();
        ASSERT_TRUE(expected.ok());
        for (size_t alone = 0; alone <= AllPasses().size(); ++alone) {
          Switches switches;
          for (size_t p = 0; p < AllPasses().size(); ++p) {
            if (alone < AllPasses().size() && p != alone)
              switches[std::string(AllPasses()[p].name)] = Switch::kOff;
          }
          const PassRun run = RunOn(placed, switches);
          const auto got = test::Interpreter(run.graph).Run();
          ASSERT_TRUE(got.ok()) << got.status().message();
          EXPECT_TRUE(*got == *expected) << source.model << " on " << ranks << ", pass " << alone;
          EXPECT_TRUE(SameMeaning(placed, run.graph).ok());
        }
      }
    }
  }
}

TEST(FoldFinish, OnOneRankEveryTreeIsFinishedWhereItGrows) {
  const Graph placed = test::Placed(test::DecoderBody({}), 1);
  const PassRun run = RunOn(placed);
  EXPECT_EQ(ReportOf(run, "fold_finish").rewrites, 4);
  EXPECT_EQ(Count(run.graph, Op::kFinish), 0);
  EXPECT_EQ(Count(run.graph, Op::kMatmul), Count(placed, Op::kMatmul));
}

TEST(FoldFinish, KeepsTheBias) {
  const PassRun run =
      RunOn(test::Placed(test::DecoderBody({.output_bias = true, .mlp_bias = true}), 1));
  int biased = 0;
  for (const Node& node : run.graph.nodes) {
    if (node.Has("finish")) biased += OperandsOf(node).biases[0] != kNoValue;
  }
  EXPECT_EQ(biased, 4);
}

TEST(FoldFinish, RefusesWhereRootsCross) {
  const PassRun run = RunOn(test::Placed(test::DecoderBody({}), 2));
  EXPECT_EQ(ReportOf(run, "fold_finish").rewrites, 0);
  EXPECT_EQ(ReportOf(run, "fold_finish").refusal,
            "2 ranks: the roots must cross between them first");
}

TEST(FoldFinish, LeavesRootsThatSomebodyElseReads) {
  Graph g = test::Placed(test::DecoderBody({.layers = 1}), 1);
  for (Node& node : g.nodes) {
    if (node.op != Op::kFinish) continue;
    Value copy = g.value(node.out[0]);
    copy.name += ".again";
    g.values.push_back(copy);
    Node again = node;
    again.out = {static_cast<ValueId>(g.values.size()) - 1};
    g.outputs.push_back(again.out[0]);
    g.nodes.push_back(again);
    break;
  }
  const PassRun run = RunOn(g);
  EXPECT_EQ(ReportOf(run, "fold_finish").rewrites, 1);
  EXPECT_EQ(Count(run.graph, Op::kFinish), 2);
}

TEST(FuseAddRmsNorm, JoinsEverySumWithTheNormThatReadsItFirst) {
  for (const int ranks : {1, 2}) {
    const PassRun run = RunOn(test::Placed(test::DecoderBody({.layers = 3}), ranks));
    EXPECT_EQ(ReportOf(run, "fuse_add_rms_norm").rewrites, 5);
    EXPECT_EQ(Count(run.graph, Op::kAdd), 1) << "the last sum has no norm in this graph";
    EXPECT_EQ(Count(run.graph, Op::kRmsNorm), 1) << "the first norm has no sum before it";
  }
}

Graph SumAndNorm(bool read_before, int64_t groups, bool sum_is_output) {
  Builder b("m", DType::kBF16);
  const ValueId x = b.Input("hidden", DType::kBF16, {Dim::T(), Dim::C(64)});
  const ValueId gain = b.Param("g", DType::kF32, {Dim::C(64 / groups)});
  const ValueId sum = b.Add(x, x, "sum");
  std::vector<ValueId> outputs;
  if (read_before) outputs.push_back(b.Add(sum, x, "other"));
  outputs.push_back(b.RmsNorm(sum, gain, 1e-5, groups, 32, "norm"));
  if (sum_is_output) outputs.push_back(sum);
  return b.Finish(outputs);
}

TEST(FuseAddRmsNorm, FiresOnlyIfNothingReadsTheSumBeforeTheNorm) {
  const auto fused = [](const Graph& g) {
    return ReportOf(RunOn(test::Placed(g, 1)), "fuse_add_rms_norm").rewrites;
  };
  EXPECT_EQ(fused(SumAndNorm(false, 1, false)), 1);
  EXPECT_EQ(fused(SumAndNorm(false, 1, true)), 1) << "the sum is still made";
  EXPECT_EQ(fused(SumAndNorm(true, 1, false)), 0) << "its reader would stand before it";
  EXPECT_EQ(fused(SumAndNorm(false, 2, false)), 0) << "a norm per head is another walk";
}

TEST(InsertCollectives, ReducesWhatIsInPartsAndGathersWhatIsReadWhole) {
  const Graph one = test::Placed(test::DecoderBody({}), 1),
              two = test::Placed(test::DecoderBody({}), 2);
  for (const Node& node : one.nodes) EXPECT_FALSE(IsExchange(node.op));
  EXPECT_EQ(Count(two, Op::kAllReduce), 4) << "two a layer";
  EXPECT_EQ(Count(two, Op::kFinish), 0);
  EXPECT_EQ(Count(two, Op::kAllGather), 0);
  const Graph greedy = test::Placed(test::DecoderHead({}, false, false), 2);
  EXPECT_EQ(Count(greedy, Op::kAllGather), 1) << "until a pass shards the argmax";
  const Graph both = test::Placed(test::DecoderHead({}, true, true), 2);
  EXPECT_EQ(Count(both, Op::kAllGather), 1) << "one gather serves the sampler and the hash";
}

TEST(Passes, HaveAPageEach) {
  for (const Pass& pass : AllPasses()) {
    const std::string ending = "-" + std::string(pass.name) + ".md";
    int pages = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/docs/optimisations")) {
      pages += file.path().filename().string().ends_with(ending);
    }
    EXPECT_EQ(pages, 1) << "docs/optimisations/NN" << ending << " (docs/how_to/pass.md, step 5)";
  }
}

TEST(Frame, ASwitchThatIsOffLeavesNoTrace) {
  const Graph placed = test::Placed(test::DecoderBody({}), 1);
  Switches off;
  for (const Pass& pass : AllPasses()) off[std::string(pass.name)] = Switch::kOff;
  const PassRun run = RunOn(placed, off);
  EXPECT_EQ(Print(run.graph), Print(placed));
  for (const PassReport& r : run.reports) EXPECT_EQ(r.refusal, "off by --opt");
}

TEST(Frame, EagerRunsOnlyWhatIsAskedForByName) {
  const Graph placed = test::Placed(test::DecoderBody({}), 1);
  EXPECT_EQ(Print(RunOn(placed, {}, 4, true).graph), Print(placed));
  const PassRun run = RunOn(placed, {{"fold_finish", Switch::kOn}}, 4, true);
  EXPECT_EQ(ReportOf(run, "fold_finish").rewrites, 4);
  EXPECT_TRUE(ReportOf(run, "fold_finish").asked);
  EXPECT_EQ(ReportOf(run, "fuse_add_rms_norm").refusal, "--enforce-eager");
}

TEST(Frame, SaysWhenThereWasNothingToDo) {
  const PassRun run =
      RunOn(test::Placed(SumAndNorm(true, 1, false), 1), {{"fold_finish", Switch::kOn}});
  EXPECT_EQ(ReportOf(run, "fold_finish").refusal, "nothing to rewrite");
}

TEST(RemoveDead, KeepsEffectsAndOutputsAndNothingElse) {
  Graph g = test::Placed(test::DecoderBody({.layers = 1}), 1);
  const Meaning before = MeaningOf(g);
  const size_t nodes = g.nodes.size(), values = g.values.size();
  Value dead = g.value(g.outputs[0]);
  dead.name = "dead";
  g.values.insert(g.values.end(), 2, dead);
  g.nodes.push_back(
      {Op::kAdd, {g.outputs[0], g.outputs[0]}, {static_cast<ValueId>(values)}, {}, "x"});
  RemoveDead(g);
  EXPECT_EQ(g.nodes.size(), nodes);
  EXPECT_EQ(g.values.size(), values);
  EXPECT_EQ(MeaningOf(g), before);
  EXPECT_EQ(Count(g, Op::kKvWrite), 1);
}

}  // namespace
}  // namespace weft::graph
