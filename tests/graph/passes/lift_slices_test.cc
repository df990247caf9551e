// Covers src/graph/passes/lift_slices.cc src/graph/passes/own_rows.cc
// A shared expert that is whole on every rank: the bits of one rank, walked on own rows, and
// nothing of it crosses.
#include <gtest/gtest.h>

#include "graph/meaning.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"
#include "support/pass_run.h"

namespace weft::graph {
namespace {

using test::Count;
using test::kFc1;
using test::kSp;
using test::PlacedBody;
using test::ReportOf;
using test::RunOn;
using test::Switches;

const Switches kPlain;

test::DecoderShape Shape(DType weights, bool whole) {
  return {.heads = 4,
          .kv_heads = 2,
          .hidden = 256,
          .weights = weights,
          .experts = 6,
          .shared_expert = true,
          .whole_shared = whole};
}

std::vector<test::Local> Hidden(const Graph& g) {
  auto run = test::Interpreter(g).Run();
  EXPECT_TRUE(run.ok()) << run.status().message() << "\n" << Print(g);
  return run.ok() ? run->at("output 0") : std::vector<test::Local>{};
}

// Its leaves and their tree are those of a deployment that cuts it, so the bits are too.
TEST(WholeSharedExpert, GivesTheBitsOfOneThatIsCut) {
  for (const DType weights : {DType::kBF16, DType::kQ8_0, DType::kF32}) {
    const auto expected = Hidden(PlacedBody(Shape(weights, false), Mesh::Tp(1)))[0];
    for (const int ranks : {1, 2, 3, 4, 6, 8, 16}) {
      const Graph placed = PlacedBody(Shape(weights, true), Mesh::Tp(ranks));
      EXPECT_TRUE(SameMeaning(PlacedBody(Shape(weights, false), Mesh::Tp(ranks)), placed).ok());
      for (const Switches& schedule : {kPlain, kSp, kFc1}) {
        const PassRun run = RunOn(placed, schedule);
        EXPECT_TRUE(SameMeaning(placed, run.graph).ok());
        for (const test::Local& local : Hidden(run.graph))
          EXPECT_TRUE(local == expected) << ranks << "\n" << Print(run.graph);
      }
    }
  }
}

// All rows on all ranks where no rank has rows of its own: nothing crosses, every rank multiplies
// with the whole.
TEST(WholeSharedExpert, UnderPlainEveryRankMakesAllRows) {
  const Graph g = RunOn(PlacedBody(Shape(DType::kBF16, true), Mesh::Tp(3)), kPlain).graph;
  for (const Node& node : g.nodes)
    EXPECT_FALSE(node.layer.ends_with(".shared") && IsExchange(node.op)) << NameOf(node.op);
  EXPECT_EQ(Count(g, Op::kFinish), 0) << "the product finishes its own tree";
  EXPECT_EQ(Count(g, Op::kAllReduce), 4) << "of attention and routed experts, in two layers";
}

TEST(WholeSharedExpert, WalksOwnRowsAndCrossesNowhere) {
  for (const Switches& schedule : {kSp, kFc1}) {
    for (const DType weights : {DType::kBF16, DType::kQ8_0}) {
      const PassRun run = RunOn(PlacedBody(Shape(weights, true), Mesh::Tp(3)), schedule);
      EXPECT_GT(ReportOf(run, "lift_slices").rewrites, 0) << ReportOf(run, "lift_slices").refusal;
      int walked = 0;
      for (const Node& node : run.graph.nodes) {
        if (!node.layer.ends_with(".shared")) continue;
        EXPECT_FALSE(IsExchange(node.op)) << NameOf(node.op);
        EXPECT_EQ(ToString(run.graph.value(node.out[0]).on), "S(0)") << NameOf(node.op) << "\n"
                                                                     << Print(run.graph);
        ++walked;
      }
      EXPECT_GT(walked, 6);
      EXPECT_EQ(Count(run.graph, Op::kSliceRows), 0);
      // Nobody but the routed experts wanted the rows of the others, and those are dispatched by
      // their owners.
      EXPECT_EQ(ReportOf(run, "exchange_experts").rewrites, 2)
          << ReportOf(run, "exchange_experts").refusal;
      EXPECT_EQ(ReportOf(run, "combine_rows").rewrites, 2) << ReportOf(run, "combine_rows").refusal;
      EXPECT_EQ(Count(run.graph, Op::kAllGather, "L00.moe"), 1) << "ids\n" << Print(run.graph);
      EXPECT_EQ(Count(run.graph, Op::kMatmul, "L00.moe"), 1) << "the router's own rows, once";
    }
  }
}

TEST(LiftSlices, LeavesWhatIsReadWholeAsWell) {
  // The gate of a shared expert stands beside the router's logits, which all ranks need under sp.
  const PassRun run = RunOn(PlacedBody(Shape(DType::kBF16, false), Mesh::Tp(2)), kSp);
  EXPECT_EQ(ReportOf(run, "lift_slices").rewrites, 0);
  EXPECT_EQ(
      ReportOf(RunOn(PlacedBody(Shape(DType::kBF16, false), Mesh::Tp(2)), kPlain), "lift_slices")
          .refusal,
      "the schedule is not sp, fc1 or fc1+fc2: nothing is sliced");
}

TEST(WholeSharedExpert, IsNotCutByHand) {
  Graph g = PlacedBody(Shape(DType::kBF16, true), Mesh::Tp(2));
  g.value(g.Find("l0.shared.gate")).on = {Placement::S(0)};
  EXPECT_TRUE(Verify(g).message().starts_with("V7: ")) << Verify(g).message();
  EXPECT_NE(Verify(g).message().find("stays whole"), std::string::npos);
}

TEST(WholeSharedExpert, IsSaidInTheGraphsText) {
  const Graph g = PlacedBody(Shape(DType::kBF16, true), Mesh::Tp(2));
  const auto again = Parse(Print(g));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->tables, g.tables);
  EXPECT_NE(Print(g).find("L00.shared_ffn 0,32,64,96 whole"), std::string::npos)
      << Print(g).substr(0, 600);
}

}  // namespace
}  // namespace weft::graph
