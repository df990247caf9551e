// Routed rows that owners fetch: the bits of one rank, what crosses, when it is taken, and who
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

Switches With(Switches switches, Switch exchange, Switch combine) {
  switches["exchange_experts"] = exchange;
  switches["combine_rows"] = combine;
  return switches;
}

const PassReport& Combined(const PassRun& run) { return test::ReportOf(run, "combine_rows"); }

TEST(CombineRows, GivesTheBitsOfOneRank) {
  const test::StepData one{.ids = {5}, .positions = {0}, .slots = {0}, .head_rows = {0}};
  for (const test::DecoderShape& shape : test::ExpertShapes()) {
    for (const test::StepData& step : {test::StepData{}, one}) {
      const auto expected = OutputsOf(PlacedBody(shape, Mesh::Tp(1)), step);
      for (const int ranks : {2, 3, 6, 16}) {
        const Graph placed = PlacedBody(shape, Mesh::Tp(ranks));
        for (const Switches& schedule : {kSp, kFc1}) {
          for (const Switch exchange : {Switch::kOn, Switch::kOff}) {
            const PassRun run = RunOn(placed, With(schedule, exchange, Switch::kOn));
            EXPECT_EQ(Combined(run).rewrites, 2);
            EXPECT_EQ(Count(run.graph, Op::kCombine), 0);
            EXPECT_TRUE(SameMeaning(placed, run.graph).ok());
            test::ExpectAnswers(run.graph, expected, step);
          }
        }
      }
    }
  }
}

TEST(CombineRows, WorksOnBothAxesOfFlashComm2) {
  for (const test::DecoderShape& shape : test::ExpertShapes()) {
    const auto expected = OutputsOf(PlacedBody(shape, Mesh::Tp(1)));
    for (const int otp : {1, 2, 3}) {
      Switches both = With(kFc1, Switch::kOn, Switch::kOn);
      both["regroup_o_proj"] = Switch::kOn;
      const PassRun run = RunOn(PlacedBody(shape, Mesh{{{"otp", otp}, {"odp", 6 / otp}}}), both);
      EXPECT_EQ(Combined(run).rewrites, 2) << Combined(run).refusal;
      test::ExpectAnswers(run.graph, expected);
    }
  }
}

// bf16 rows of k experts against one float32 root of every rank: from n > k / 2 on.
TEST(CombineRows, IsTakenWhereRoutesAreFewerBytesThanRoots) {
  test::DecoderShape shape{.heads = 4, .kv_heads = 2, .hidden = 256, .experts = 16, .top_k = 4};
  EXPECT_EQ(Combined(RunOn(PlacedBody(shape, Mesh::Tp(2)), kSp)).refusal,
            "L00.moe: an owner would take 1024 bytes a row in place of 1024");
  const PassRun run = RunOn(PlacedBody(shape, Mesh::Tp(4)), kSp);
  EXPECT_EQ(Combined(run).rewrites, 2) << Combined(run).refusal;
  EXPECT_EQ(Count(run.graph, Op::kCombineRows), 2);
  shape.top_k = 2;
  EXPECT_EQ(Combined(RunOn(PlacedBody(shape, Mesh::Tp(2)), kSp)).rewrites, 2);
}

// With the rows of tokens dispatched by their owners, nobody needs the weights of others' tokens;
// without, a slice of what all have.
TEST(CombineRows, WantsTheWeightsOfOwnTokensAlone) {
  const test::DecoderShape shape{.heads = 4, .kv_heads = 2, .hidden = 256, .experts = 6};
  for (const Switch exchange : {Switch::kOn, Switch::kOff}) {
    const PassRun run = RunOn(PlacedBody(shape, Mesh::Tp(3)), With(kSp, exchange, Switch::kOn));
    EXPECT_EQ(Count(run.graph, Op::kSliceRows, "L00.moe"), exchange == Switch::kOn ? 0 : 1);
    for (const Node& node : run.graph.nodes) {
      if (node.op != Op::kAllGather) continue;
      EXPECT_EQ(run.graph.value(node.out[0]).name.find("weights"), std::string::npos);
    }
  }
}

TEST(CombineRows, SaysWhereItIsNothing) {
  const test::DecoderShape experts{.heads = 4, .kv_heads = 2, .experts = 6};
  EXPECT_EQ(Combined(RunOn(PlacedBody(experts, Mesh::Tp(1)), kSp)).refusal,
            "one rank has all the experts");
  EXPECT_EQ(Combined(RunOn(PlacedBody(experts, Mesh::Tp(2)), {})).refusal,
            "the schedule is not sp, fc1 or fc1+fc2: no rank owns rows");
  EXPECT_EQ(Combined(RunOn(PlacedBody({}, Mesh::Tp(2)), kSp)).refusal, "nothing to rewrite");
}

TEST(CombineRows, WrongRewritesAreRefusedByRuleAndValue) {
  const test::DecoderShape shape{.heads = 4, .kv_heads = 2, .experts = 6};
  const Graph lawful =
      RunOn(PlacedBody(shape, Mesh::Tp(2)), With(kSp, Switch::kOn, Switch::kOn)).graph;
  const auto combine = [](Graph& g, int nth = 0) -> Node& {
    for (Node& node : g.nodes) {
      if (node.op == Op::kCombineRows && nth-- == 0) return node;
    }
    std::abort();
  };
  const std::vector<test::WrongRewrite> wrongs{
      {"V3", "no weights", "3 inputs", [&](Graph& g) { combine(g).in.pop_back(); }},
      {"V4", "routes of another layer", "not the routes of these rows",
       [&](Graph& g) { combine(g, 1).in[1] = combine(g, 0).in[1]; }},
      {"V5", "a rank's own ids", "who has a row is for all to know",
       [&](Graph& g) { combine(g).in[2] = g.Find("L00.moe.experts.ids.rows"); }},
      {"V4", "combined where the experts are, and not finished", "float32 wanted",
       [&](Graph& g) {
         Node& node = combine(g);
         node.op = Op::kCombine;
         std::erase_if(node.attrs, [](const Attr& a) { return a.key == "axes"; });
       }},
      {"V6", "rows that do not cross", "a combination among all ranks wanted",
       [&](Graph& g) { combine(g).Set("axes", int64_t{0}); }},
      {"V10", "the ids of another layer", "",
       [&](Graph& g) { combine(g, 1).in[2] = combine(g, 0).in[2]; }},
      {"V10", "the weights of another layer", "",
       [&](Graph& g) { combine(g, 1).in[3] = combine(g, 0).in[3]; }},
  };
  test::ExpectRefused(lawful, wrongs);
}

}  // namespace
}  // namespace weft::graph
