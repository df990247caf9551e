// Covers src/graph/parse.cc
#include "graph/text.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "graph/meaning.h"
#include "graph/verify.h"
#include "support/decoder_graph.h"

namespace weft::graph {
namespace {

TEST(Text, PrintParsePrintIsTheIdentity) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const Graph& source : {test::DecoderBody(shape), test::DecoderHead(shape, false, true),
                                test::DecoderHead(shape, true, false)}) {
      std::vector<Graph> forms{source, Expand(source, {})};
      for (const int ranks : {1, 2, 3}) {
        auto run = RunPasses(test::Placed(source, ranks), {.ranks = ranks}, false);
        ASSERT_TRUE(run.ok());
        forms.push_back(test::Placed(source, ranks));
        forms.push_back(run->graph);
      }
      for (const Graph& g : forms) {
        const std::string text = Print(g);
        auto again = Parse(text);
        ASSERT_TRUE(again.ok()) << again.status().message();
        EXPECT_EQ(Print(*again), text);
        EXPECT_EQ(again->tables, g.tables);
        EXPECT_TRUE(Verify(*again).ok());
        EXPECT_TRUE(SameMeaning(g, *again).ok());
      }
    }
  }
}

constexpr std::string_view kText = R"(graph tiny
axis tp 2
table f 0,32,64
table g 0,16,32 follows 0 32
input x : bfloat16 [T,64/f] S(1)
param w : q8_0 [8,64/f] S(1)
temp r : float32 [T,8] P
temp y : bfloat16 [T,8] R
r = matmul(x, w) {weights=1, roots=1, note='a b'} @L00.mlp
y = all_reduce(r) {scale=0x1.8p+1} @-
return y
)";

std::string With(std::string_view from, std::string_view to) {
  std::string text(kText);
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(Text, ReadsWhatAPersonWrites) {
  const std::string text = With("q8_0", NameOf(DType::kQ8_0));
  auto g = Parse(text);
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(Print(*g), text);
  EXPECT_EQ(g->tables[1].follows, 0);
  EXPECT_EQ(g->nodes[0].Text("note"), "a b");
  EXPECT_EQ(g->nodes[1].Real("scale"), 3.0);
  EXPECT_EQ(g->nodes[1].layer, "");
  EXPECT_EQ(g->nodes[0].layer, "L00.mlp");
}

TEST(Text, ErrorsSayLineAndReason) {
  struct Bad {
    std::string from, to, says;
  };
  const std::vector<Bad> all{
      {"graph tiny\n", "", "line 1: 'graph NAME' wanted first"},
      {"axis tp 2", "axis tp two", "line 2: 'axis NAME SIZE' wanted"},
      {"axis tp 2", "axis tp 0", "line 2: 'axis NAME SIZE' wanted"},
      {"0,32,64", "0,32,x", "line 3: 'x' is no number"},
      {"0,32,64", "0,64,32", "line 3: no leaf table of 'f'"},
      {"0,32,64", "0,8,64", "line 3: no leaf table of 'f'"},
      {"follows 0", "follows 5", "line 4: there is no table 5"},
      {"table g", "table f", "line 4: a second table 'f'"},
      {"bfloat16 [T", "bfloat17 [T", "line 5: 'bfloat17' is no type"},
      {"[T,64/f] S(1)", "[T,64/h] S(1)", "line 5: there is no table 'h'"},
      {"[T,64/f] S(1)", "T S(1)", "line 5: 'T' is no shape"},
      {"[T,64/f] S(1)", "[T,64/f] S(x)", "line 5: 'S(x)' is no placement"},
      {"[T,64/f] S(1)", "[T,64/f]", "line 5: 'KIND NAME : TYPE [DIMS] PLACEMENT' wanted"},
      {"temp y", "temp r", "line 8: a second value 'r'"},
      {"r = matmul", "r = matmull", "line 9: 'matmull' is no op"},
      {"matmul(x", "matmul(q", "line 9: there is no value 'q'"},
      {"note='a b'", "note=", "line 9: '' is no value of 'note'"},
      {"roots=1", "weights=1", "line 9: a second attribute 'weights'"},
      {" @L00.mlp", "", "line 9: 'OUT = OP(IN) {ATTRS} @LAYER' wanted"},
      {"return y\n", "", "no return line"},
      {"return y", "return ", "line 11: nothing is returned"},
      {"return y", "return z", "line 11: there is no value 'z'"},
      {"return y\n", "return y\nreturn y\n", "line 12: text after the return line"},
      {"axis", "axes", "line 2: 'axes' begins no line of a graph"},
  };
  for (const Bad& bad : all) {
    std::string text = With(bad.from, bad.to);
    if (const size_t at = text.find("q8_0"); at != std::string::npos)
      text.replace(at, 4, NameOf(DType::kQ8_0));
    auto g = Parse(text);
    ASSERT_FALSE(g.ok()) << bad.says;
    EXPECT_EQ(g.status().code(), StatusCode::kInvalid);
    EXPECT_NE(g.status().message().find(bad.says), std::string::npos)
        << g.status().message() << "\nwanted " << bad.says;
  }
}

TEST(Text, AnyCutOfATextIsAnErrorAndNoCrash) {
  const std::string text = Print(test::Placed(test::DecoderBody({.layers = 1}), 2));
  for (size_t n = 0; n + 1 < text.size(); n += 7) EXPECT_FALSE(Parse(text.substr(0, n)).ok()) << n;
  Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = text;
    for (int k = 0; k < 3; ++k) bad[rng.Below(bad.size())] = "=(){},@:[] \n0S"[rng.Below(14)];
    (void)Parse(bad).ok();
  }
}

}  // namespace
}  // namespace weft::graph
