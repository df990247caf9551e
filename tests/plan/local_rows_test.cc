// Covers src/plan/local_rows.cc src/plan/wire_bytes.cc
#include "plan/local_rows.h"

#include <gtest/gtest.h>

#include "graph/passes/pass.h"
#include "plan/wire_bytes.h"
#include "support/decoder_graph.h"

namespace weft::plan {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Mesh;
using graph::Op;
using graph::Placement;
using graph::Value;

Value Rows(graph::Placements on) {
  Value v;
  v.dims = {Dim::T(), Dim::C(64)};
  v.on = std::move(on);
  return v;
}

TEST(LocalRows, TileTheLiveRowsInRankOrder) {
  for (const int ranks : {1, 2, 3, 7, 16}) {
    Graph g;
    g.mesh = Mesh::Tp(ranks);
    for (const int64_t rows : {1, 2, 15, 16, 1001}) {
      int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const LocalRows own(g, Rows({Placement::S(0)}), r);
        EXPECT_EQ(own.Begin(rows), next);
        EXPECT_LE(own.Count(rows), own.Capacity(rows));
        next += own.Count(rows);
      }
      EXPECT_EQ(next, rows);
    }
  }
}

// After FlashComm2's all-to-all an odp member has the chunks {i + j * |odp|} of t.
TEST(LocalRows, AreInPiecesWhereOnlyTheMinorAxisCuts) {
  Graph g;
  g.mesh = Mesh{{{"otp", 2}, {"odp", 3}}};
  const LocalRows own(g, Rows({Placement::S(1), Placement::S(0, 1)}), 4);  // odp member 1
  ASSERT_EQ(own.pieces(), 2);
  EXPECT_EQ(own.piece(0, 60).begin, 10);
  EXPECT_EQ(own.piece(0, 60).end, 20);
  EXPECT_EQ(own.piece(1, 60).begin, 40);
  EXPECT_EQ(own.piece(1, 60).end, 50);
  EXPECT_EQ(own.Count(60), 20);
  EXPECT_EQ(own.Capacity(61), 22) << "two chunks of at most eleven";
  const LocalRows both(g, Rows({Placement::S(0, 0), Placement::S(0, 1)}), 4);
  EXPECT_EQ(both.pieces(), 1);
  EXPECT_EQ(both.Begin(60), 40);
}

TEST(LocalRows, OfAWholeValueAreAll) {
  Graph g;
  g.mesh = Mesh::Tp(3);
  const LocalRows all(g, Rows({Placement::R()}), 2);
  EXPECT_EQ(all.Begin(17), 0);
  EXPECT_EQ(all.Count(17), 17);
  EXPECT_EQ(all.Capacity(17), 17);
}

// The formulas of article B per layer and rank, times the ranks: 4 bytes a root and element where
// rows are reduced, 2 a bfloat16 element where they move. N rows, H hidden, t ranks; N and the
// leaves divide by t.
TEST(WireBytes, FollowTheFormulas) {
  const int64_t n = 24, h = 64;
  const auto graph_of = [&](const Mesh& mesh,
                            std::map<std::string, graph::Switch, std::less<>> switches) {
    auto placed = graph::InsertCollectives(
        graph::Expand(test::DecoderBody({.layers = 1, .heads = 4, .kv_heads = 4, .width = 128}),
                      {}),
        mesh);
    EXPECT_TRUE(placed.ok());
    auto run = graph::RunPasses(std::move(placed).value(), {mesh.ranks(), n, switches}, false);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return std::move(run).value().graph;
  };
  const auto bytes = [&](const Graph& g, Op op, size_t nth) {
    for (const graph::Node& node : g.nodes) {
      if (node.op == op && nth-- == 0) return DirectWireBytes(g, node, n);
    }
    ADD_FAILURE() << NameOf(op);
    return int64_t{-1};
  };
  const graph::Switch on = graph::Switch::kOn;
  const int64_t t = 4;
  const Graph plain = graph_of(Mesh::Tp(4), {});
  EXPECT_EQ(bytes(plain, Op::kAllReduce, 0), t * (t - 1) * n * h * 4) << "all read all roots";
  const Graph sp = graph_of(Mesh::Tp(4), {{"sequence_parallel", on}});
  EXPECT_EQ(bytes(sp, Op::kReduceScatter, 0), (t - 1) * n * h * 4);
  EXPECT_EQ(bytes(sp, Op::kAllGather, 0), (t - 1) * n * h * 2);
  const Graph fc2 = graph_of(Mesh{{{"otp", 2}, {"odp", 2}}}, {{"regroup_o_proj", on}});
  const int64_t p = 2, q = 2, width = 4 * 16;
  EXPECT_EQ(bytes(fc2, Op::kAllToAll, 0), t * (q - 1) * n / q * (width / t) * 2);
  EXPECT_EQ(bytes(fc2, Op::kReduceScatter, 0), t * (p - 1) * (n / t) * h * 4);
  EXPECT_EQ(bytes(fc2, Op::kAllGather, 0), (t - 1) * n * h * 2);
  const Graph gather = graph_of(Mesh::Tp(4), {{"gather_columns", on}});
  EXPECT_EQ(bytes(gather, Op::kAllGather, 0), (t - 1) * n * width * 2) << "attention's rows";
  EXPECT_EQ(bytes(gather, Op::kAllGather, 1), t * n * h * 2 - n * h * 2)
      << "o_proj's outputs, cut between blocks of 32";
}

}  // namespace
}  // namespace weft::plan
