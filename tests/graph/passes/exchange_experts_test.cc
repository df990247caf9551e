// Covers src/graph/passes/exchange_experts.cc src/graph/passes/own_rows.cc
// Rows that their owners dispatch: the bits of one rank, what crosses, when it is taken, and who
// refuses a wrong one.
#include <gtest/gtest.h>

#include "graph/meaning.h"
#include "graph/text.h"
#include "support/decoder_graph.h"
#include "support/pass_run.h"
#include "support/wrong_rewrites.h"

namespace weft::graph {
namespace {

using test::Count;
using test::kFc1;
using test::kSp;
using test::OutputsOf;
using test::PlacedBody;
using test::RunOn;
using test::Switches;

// Rows come back as they do without this pass.
Switches With(Switches switches, Switch exchange) {
  switches["exchange_experts"] = exchange;
  switches["combine_rows"] = Switch::kOff;
  return switches;
}

const PassReport& Exchange(const PassRun& run) { return test::ReportOf(run, "exchange_experts"); }

std::vector<std::string> Gathered(const Graph& g, std::string_view layer) {
  std::vector<std::string> names;
  for (const Node& n : g.nodes) {
    if (n.op == Op::kAllGather && n.layer.starts_with(layer))
      names.push_back(g.value(n.out[0]).name);
  }
  return names;
}

TEST(ExchangeExperts, GivesTheBitsOfOneRank) {
  const test::StepData one{.ids = {5}, .positions = {0}, .slots = {0}, .head_rows = {0}};
  for (const test::DecoderShape& shape : test::ExpertShapes()) {
    for (const test::StepData& step : {test::StepData{}, one}) {
      const auto expected = OutputsOf(PlacedBody(shape, Mesh::Tp(1)), step);
      for (const int ranks : {2, 3, 4, 6, 8, 16}) {
        for (const Switches& schedule : {kSp, kFc1}) {
          const Graph placed = PlacedBody(shape, Mesh::Tp(ranks));
          const PassRun run = RunOn(placed, With(schedule, Switch::kOn));
          EXPECT_EQ(Exchange(run).rewrites, 2);
          EXPECT_EQ(Count(run.graph, Op::kDispatch), 0);
          EXPECT_TRUE(SameMeaning(placed, run.graph).ok());
          test::ExpectAnswers(run.graph, expected, step);
        }
      }
    }
  }
}

TEST(ExchangeExperts, WorksOnBothAxesOfFlashComm2) {
  for (const test::DecoderShape& shape : test::ExpertShapes()) {
    const auto expected = OutputsOf(PlacedBody(shape, Mesh::Tp(1)));
    for (const int otp : {1, 2, 3}) {
      Switches both = With(kFc1, Switch::kOn);
      both["regroup_o_proj"] = Switch::kOn;
      const PassRun run = RunOn(PlacedBody(shape, Mesh{{{"otp", otp}, {"odp", 6 / otp}}}), both);
      EXPECT_EQ(Exchange(run).rewrites, 2);
      test::ExpectAnswers(run.graph, expected);
    }
  }
}

// Of 6 experts 2 on 3 ranks: 5 of 9 rows meet an expert of a peer. The gather of hidden rows goes,
// what is gathered is whom each token met.
TEST(ExchangeExperts, IsTakenWhereTheGatherGoes) {
  const test::DecoderShape shape{.heads = 4, .kv_heads = 2, .hidden = 256, .experts = 6};
  for (const Switches& schedule : {kSp, kFc1}) {
    const PassRun run = RunOn(PlacedBody(shape, Mesh::Tp(3)), With(schedule, Switch::kAuto));
    EXPECT_EQ(Exchange(run).rewrites, 2) << Exchange(run).refusal;
    EXPECT_EQ(Gathered(run.graph, "L00.moe"),
              (std::vector<std::string>{"L00.moe.experts.ids", "L00.moe.experts.weights"}))
        << Print(run.graph);
    EXPECT_EQ(Count(run.graph, Op::kDispatchRows), 2);
    for (const Node& node : run.graph.nodes) {
      if (node.op != Op::kRoute && node.op != Op::kDispatchRows) continue;
      EXPECT_EQ(ToString(run.graph.value(node.in[0]).on), "S(0)")
          << NameOf(node.op) << " sees own rows";
    }
  }
}

TEST(ExchangeExperts, QuantisedRowsAreDispatchedAsTheyAre) {
  const PassRun run = RunOn(
      PlacedBody({.heads = 4, .kv_heads = 2, .hidden = 256, .weights = DType::kQ8_0, .experts = 6},
                 Mesh::Tp(3)),
      kSp);
  EXPECT_EQ(Exchange(run).rewrites, 2);
  for (const Node& node : run.graph.nodes) {
    if (node.op != Op::kDispatchRows) continue;
    EXPECT_TRUE(run.graph.value(node.in[0]).int8_rows && run.graph.value(node.out[0]).int8_rows);
  }
}

// A shared expert whose weights are cut reads all rows, so the gather stays and a dispatch would be
// one more.
TEST(ExchangeExperts, SaysWhoKeepsTheGather) {
  const test::DecoderShape shape{
      .heads = 4, .kv_heads = 2, .hidden = 256, .experts = 6, .shared_expert = true};
  const PassRun run = RunOn(PlacedBody(shape, Mesh::Tp(3)), kFc1);
  EXPECT_EQ(Exchange(run).rewrites, 0);
  EXPECT_EQ(Exchange(run).refusal,
            "L00.moe: a peer would take 300 bytes a row in place of 0: matmul at L00.shared reads "
            "'L00.mlp_norm.gathered' gathered");
  EXPECT_EQ(Exchange(RunOn(PlacedBody(shape, Mesh::Tp(3)), With(kFc1, Switch::kOn))).rewrites, 2)
      << "who asks for it gets it";
}

TEST(ExchangeExperts, SaysWhereItIsNothing) {
  const test::DecoderShape experts{.heads = 4, .kv_heads = 2, .experts = 6};
  EXPECT_EQ(Exchange(RunOn(PlacedBody(experts, Mesh::Tp(1)), kSp)).refusal,
            "one rank has all the rows");
  EXPECT_EQ(Exchange(RunOn(PlacedBody(experts, Mesh::Tp(2)), {})).refusal,
            "the schedule is not sp, fc1 or fc1+fc2: every rank has all the rows");
  EXPECT_EQ(Exchange(RunOn(PlacedBody({}, Mesh::Tp(2)), kSp)).refusal, "nothing to rewrite");
}

// The gather of a router's logits ends at its choice, with a shared expert too.
TEST(DeferGather, SinksBehindTheRoutersChoice) {
  const test::DecoderShape shape{.heads = 4,
                                 .kv_heads = 2,
                                 .hidden = 256,
                                 .weights = DType::kQ8_0,
                                 .experts = 16,
                                 .top_k = 2,
                                 .shared_expert = true};
  const Graph placed = PlacedBody(shape, Mesh::Tp(2));
  const PassRun run = RunOn(placed, With(kFc1, Switch::kOff));
  EXPECT_EQ(Gathered(run.graph, "L00.moe"),
            (std::vector<std::string>{"L00.moe.experts.ids", "L00.moe.experts.weights",
                                      "L00.mlp_norm.int8"}))
      << Print(run.graph);
  EXPECT_EQ(Count(run.graph, Op::kSliceRows), 0) << "the shared expert's gate stays on own rows";
}

TEST(ExchangeExperts, WrongRewritesAreRefusedByRuleAndValue) {
  const test::DecoderShape shape{.heads = 4, .kv_heads = 2, .experts = 6};
  const Graph lawful = RunOn(PlacedBody(shape, Mesh::Tp(2)), With(kSp, Switch::kOn)).graph;
  const auto dispatch = [](Graph& g, int nth = 0) -> Node& {
    for (Node& node : g.nodes) {
      if (node.op == Op::kDispatchRows && nth-- == 0) return node;
    }
    std::abort();
  };
  const std::vector<test::WrongRewrite> wrongs{
      {"V3", "no ids", "2 inputs", [&](Graph& g) { dispatch(g).in.pop_back(); }},
      {"V4", "ids of other width", "weights",
       [&](Graph& g) { dispatch(g).in[2] = g.Find("L00.moe.experts.weights"); }},
      {"V5", "own rows taken for all of them", "S(0)",
       [&](Graph& g) {
         Node& node = dispatch(g);
         node.op = Op::kDispatch;
         node.in.pop_back();
         std::erase_if(node.attrs, [](const Attr& a) { return a.key == "axes"; });
       }},
      {"V5", "a rank's own ids", "who needs a row is for all to know",
       [&](Graph& g) { dispatch(g).in[2] = g.Find("L00.moe.experts.ids.rows"); }},
      {"V6", "rows that all have", "the rows of a rank's own tokens",
       [&](Graph& g) { dispatch(g).in[0] = g.Find("L00.attn_norm.gathered"); }},
      {"V6", "routes of own tokens alone", "R wanted",
       [&](Graph& g) {
         for (Node& node : g.nodes) {
           if (node.op == Op::kGroupRoutes) node.in[0] = g.Find("L00.moe.experts.ids.rows");
         }
       }},
      {"V6", "rows that do not cross", "R wanted",
       [&](Graph& g) { dispatch(g).Set("axes", int64_t{0}); }},
      {"V10", "the ids of another layer", "",
       [&](Graph& g) { dispatch(g, 1).in[2] = dispatch(g, 0).in[2]; }},
      {"V10", "the rows of another layer", "",
       [&](Graph& g) { dispatch(g, 1).in[0] = dispatch(g, 0).in[0]; }},
  };
  test::ExpectRefused(lawful, wrongs);
}

}  // namespace
}  // namespace weft::graph
