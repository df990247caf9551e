#include <gtest/gtest.h>

#include <sstream>

#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

TEST(Print, SaysWhatAReviewerAsks) {
  const std::string text = Print(Compiled(test::DecoderBody({}), 2, Body(1), PlainTarget(2)));
  for (const char* words : {"plan decoder.body  body:1  mesh tp=2  schedule plain  target plain  "
                            "workers 2  passes fuse_add_rms_norm:3",
                            "all_reduce:loop", "group each partials=2 wire",
                            "pass fold_finish: applied 0 times: 2 ranks", "waits: "}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " in\n" << text;
  }
}

// Where each title stands, its column's cells stand; two spaces part a column from the one before.
void ExpectColumns(const std::string& text) {
  std::istringstream lines(text);
  std::string head, line;
  std::getline(lines, line);
  std::getline(lines, head);
  int rows = 0;
  while (std::getline(lines, line) && line.find(" of a rank's workers") == std::string::npos) {
    if (line.starts_with("refused") || line.starts_with("pass")) continue;
    ++rows;
    for (const char* title : {"layer ", "op ", "out ", "on ", "impl ", "waits"}) {
      const size_t at = head.find(title);
      ASSERT_LT(at, line.size()) << line;
      EXPECT_EQ(line.substr(at - 2, 2), "  ") << title << "\n" << head << "\n" << line;
      EXPECT_NE(line[at], ' ') << title << "\n" << head << "\n" << line;
    }
    for (const char* title : {"#", " lane", " weights", " per row", " flops/row"}) {
      const size_t end = head.find(title) + std::string(title).size();
      EXPECT_NE(line[end - 1], ' ') << title << "\n" << head << "\n" << line;
      EXPECT_EQ(line.substr(end, 2), "  ") << title << "\n" << head << "\n" << line;
    }
    EXPECT_NE(line.back(), ' ') << line;
  }
  EXPECT_GT(rows, 0);
}

TEST(Print, ColumnsStandInLineWhateverIsInThem) {
  for (const DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {1, 3}) {
      Plan plan = Compiled(test::DecoderBody(shape), ranks, Body(1), PlainTarget(2));
      ExpectColumns(Print(plan));
      plan.steps[3].impl = "a:name:as:long:as:an:instruction:set:and:a:format:and:an:activation";
      plan.graph.nodes[5].layer = "L100.attn.indexer.compressor";
      plan.graph.value(plan.graph.nodes[6].out[0]).dims.push_back(graph::Dim::C(1'234'567'890'123));
      plan.steps[7].cost.row_flops = 999'999'999'999;
      ExpectColumns(Print(plan));
    }
  }
}

}  // namespace
}  // namespace weft::plan
