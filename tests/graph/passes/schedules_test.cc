// Covers src/graph/passes/
// The schedules as rewrites: the bits of plain tensor parallelism on virtual ranks, and the
// collectives that each is known for.
#include <gtest/gtest.h>

#include "graph/meaning.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"
#include "support/pass_run.h"
#include "support/wrong_rewrites.h"

namespace weft::graph {
namespace {

using test::Count;
using test::PlacedOn;
using test::ReportOf;
using test::RunOn;
using test::Switches;

struct Variant {
  std::string name;
  Switches switches;
  int otp = 0;  // 0: one axis
};

std::vector<Variant> VariantsOn(int ranks) {
  const Switch on = Switch::kOn;
  std::vector<Variant> out{{"sp", {{"sequence_parallel", on}}},
                           {"fc1", {{"sequence_parallel", on}, {"defer_gather", on}}},
                           {"gather", {{"gather_columns", on}}}};
  for (int otp = 1; otp < ranks; ++otp) {
    if (ranks % otp != 0) continue;
    out.push_back({fmt::format("fc2 otp={}", otp), {{"regroup_o_proj", on}}, otp});
    out.push_back({fmt::format("fc1+fc2 otp={}", otp),
                   {{"sequence_parallel", on}, {"defer_gather", on}, {"regroup_o_proj", on}},
                   otp});
  }
  return out;
}

Mesh MeshOf(const Variant& v, int ranks) {
  return v.otp == 0 ? Mesh::Tp(ranks) : Mesh{{{"otp", v.otp}, {"odp", ranks / v.otp}}};
}

// A value that is answered, on the ranks that answer: the first is as good as any.
std::map<std::string, test::Local> Answers(const Graph& g) {
  auto run = test::Interpreter(g).Run();
  EXPECT_TRUE(run.ok()) << run.status().message();
  std::map<std::string, test::Local> out;
  if (!run.ok()) return out;
  for (const auto& [name, ranks] : *run) {
    if (name.starts_with("state")) continue;
    for (const test::Local& rank : ranks)
      EXPECT_TRUE(rank == ranks[0]) << name << ": ranks answer differently";
    out[name] = ranks[0];
  }
  return out;
}

TEST(Schedules, GiveTheBitsOfOneRank) {
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    const Graph source = test::DecoderBody(shape);
    const auto expected = Answers(test::Placed(source, 1));
    for (const int ranks : {2, 3, 4, 6, 8, 16}) {
      for (const Variant& v : VariantsOn(ranks)) {
        const Graph placed = PlacedOn(source, MeshOf(v, ranks));
        const PassRun run = RunOn(placed, v.switches);
        EXPECT_TRUE(SameMeaning(placed, run.graph).ok());
        EXPECT_TRUE(Answers(run.graph) == expected)
            << source.model << " on " << ranks << ", " << v.name << "\n"
            << Print(run.graph);
        for (const auto& [pass, on] : v.switches) {
          if (pass == "defer_gather") continue;  // nothing shrinks in front of bfloat16 weights
          EXPECT_GT(ReportOf(run, pass).rewrites, 0) << v.name;
        }
      }
    }
  }
}

// Row 49 of the acceptance rows: as many reduce-scatters and gathers as there were all-reduces, and
// every norm behind one works on own rows. Here the embedding is sliced at its source, so its norm
// is one more.
TEST(SequenceParallel, TurnsEveryAllReduceIntoAReduceScatterAndAGatherAfterTheNorm) {
  const int layers = 3;
  const Graph placed = test::Placed(test::DecoderBody({.layers = layers}), 2);
  EXPECT_EQ(Count(placed, Op::kAllReduce), 2 * layers);
  const PassRun run =
      RunOn(placed, {{"sequence_parallel", Switch::kOn}, {"fuse_add_rms_norm", Switch::kOff}});
  EXPECT_EQ(ReportOf(run, "sequence_parallel").rewrites, 2 * layers);
  EXPECT_EQ(Count(run.graph, Op::kAllReduce), 0);
  EXPECT_EQ(Count(run.graph, Op::kReduceScatter), 2 * layers);
  EXPECT_EQ(Count(run.graph, Op::kAllGather), 2 * layers + 1)
      << "one behind every norm, one where the rows leave";
  for (const Node& node : run.graph.nodes) {
    if (node.op == Op::kAdd || node.op == Op::kRmsNorm || node.op == Op::kEmbed) {
      EXPECT_EQ(ToString(run.graph.value(node.out[0]).on), "S(0)")
          << NameOf(node.op) << " at " << node.layer;
    }
  }
}

// A per-layer input that is added to the residual (deepstack) is whole on every rank: it is sliced.
TEST(SequenceParallel, SlicesWhatEntersWhole) {
  Graph g = test::Placed(test::DecoderBody({}), 3);
  Value deep = g.value(g.Find("L00.attn_residual"));
  deep.name = "hidden";
  deep.kind = ValueKind::kInput;
  g.values.push_back(deep);
  const auto id = static_cast<ValueId>(g.values.size()) - 1;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op != Op::kAllReduce) continue;
    const ValueId reduced = g.nodes[n].out[0], sum = AddLike(g, reduced, ".deep");
    for (size_t m = n + 1; m < g.nodes.size(); ++m) {
      for (ValueId& in : g.nodes[m].in) in = in == reduced ? sum : in;
    }
    g.nodes.insert(g.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1,
                   Node{Op::kAdd, {reduced, id}, {sum}, {}, "L00"});
    break;
  }
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).message();
  const PassRun run = RunOn(g, {{"sequence_parallel", Switch::kOn}});
  EXPECT_EQ(Count(run.graph, Op::kSliceRows), 1);
  EXPECT_EQ(Count(run.graph, Op::kAllReduce), 0);
  EXPECT_TRUE(Answers(run.graph) == Answers(g));
}

TEST(DeferGather, CarriesInt8RowsWhereWeightsAreQuantised) {
  const Graph placed =
      PlacedOn(test::DecoderBody({.layers = 2, .heads = 4, .kv_heads = 2, .weights = DType::kQ4_1}),
               Mesh::Tp(2));
  const PassRun sp = RunOn(placed, {{"sequence_parallel", Switch::kOn}});
  const PassRun fc1 =
      RunOn(placed, {{"sequence_parallel", Switch::kOn}, {"defer_gather", Switch::kOn}});
  EXPECT_EQ(ReportOf(fc1, "defer_gather").rewrites, 4)
      << "in front of qkv and of gate and up, in two layers";
  EXPECT_EQ(Count(fc1.graph, Op::kAllGather), Count(sp.graph, Op::kAllGather));
  const auto bytes = [](const Graph& g) {
    int64_t sum = 0;
    for (const Node& n : g.nodes) sum += n.op == Op::kAllGather ? RowBytes(g, n.out[0]) : 0;
    return sum;
  };
  EXPECT_EQ(bytes(sp.graph), 5 * 64 * 2);
  EXPECT_EQ(bytes(fc1.graph), 4 * (64 + 2 * 8) + 64 * 2) << "the last one leaves as it is";
}

TEST(DeferGather, LeavesAGatherThatNothingShrinks) {
  const PassRun run = RunOn(PlacedOn(test::DecoderBody({}), Mesh::Tp(2)),
                            {{"sequence_parallel", Switch::kOn}, {"defer_gather", Switch::kOn}});
  EXPECT_EQ(ReportOf(run, "defer_gather").rewrites, 0);
}

// Multi-head latent attention: q_a and kv_a are whole on every rank and narrower than hidden
// together.
Graph MlaBlock(int64_t q_lora, int64_t kv_lora) {
  Builder b("mla", DType::kBF16);
  const auto matrix = [&](const char* name, Dim n, Dim k) {
    return b.Param(name, DType::kBF16, {n, k});
  };
  const ValueId ids = b.Input("ids", DType::kI32, {Dim::T()});
  const ValueId table =
      b.Param("embed", DType::kBF16,
              {Dim::C(100, b.Table("vocab", LeafTable::Make(100, 32))), Dim::C(128)});
  const int width = b.Table("width", LeafTable::Make(192, 32)),
            heads = b.Table("heads", LeafTable::Make(256, 32));
  b.Layer("L00");
  ValueId r = b.Embedding(ids, table);
  const ValueId first =
      b.ColumnLinear(r, {matrix("up0", Dim::C(192, width), Dim::C(128))}, {kNoValue}, {"up0"})[0];
  r = b.Add(r,
            b.RowLinear(first, matrix("down0", Dim::C(128), Dim::C(192, width)), kNoValue, "down0"),
            "r0");
  const ValueId x = b.RmsNorm(r, b.Param("g0", DType::kF32, {Dim::C(128)}), 1e-5, 1, 32, "norm");
  const auto latent = b.ColumnLinear(
      x, {matrix("q_a", Dim::C(q_lora), Dim::C(128)), matrix("kv_a", Dim::C(kv_lora), Dim::C(128))},
      {kNoValue, kNoValue}, {"q_a", "kv_a"});
  const ValueId q =
      b.RmsNorm(latent[0], b.Param("g1", DType::kF32, {Dim::C(q_lora)}), 1e-5, 1, 32, "q_norm");
  const ValueId kv =
      b.RmsNorm(latent[1], b.Param("g2", DType::kF32, {Dim::C(kv_lora)}), 1e-5, 1, 32, "kv_norm");
  const ValueId up = b.ColumnLinear(q, {matrix("q_b", Dim::C(256, heads), Dim::C(q_lora))},
                                    {kNoValue}, {"q_b"})[0];
  const ValueId kv_up = b.ColumnLinear(kv, {matrix("kv_b", Dim::C(256, heads), Dim::C(kv_lora))},
                                       {kNoValue}, {"kv_b"})[0];
  const ValueId o =
      b.RowLinear(b.SwiGlu(up, kv_up), matrix("o", Dim::C(128), Dim::C(256, heads)), kNoValue, "o");
  return b.Finish({b.Add(r, o, "r1")});
}

TEST(DeferGather, SinksBehindTheLatentsOfMla) {
  const Graph placed = PlacedOn(MlaBlock(64, 32), Mesh::Tp(2));
  const auto expected = Answers(placed);
  const PassRun run =
      RunOn(placed, {{"sequence_parallel", Switch::kOn}, {"defer_gather", Switch::kOn}});
  EXPECT_EQ(ReportOf(run, "defer_gather").rewrites, 3)
      << "behind both latents at once, then behind each one's norm";
  std::vector<std::string> gathered;
  for (const Node& n : run.graph.nodes) {
    if (n.op == Op::kAllGather) gathered.push_back(run.graph.value(n.out[0]).name);
  }
  EXPECT_EQ(gathered, (std::vector<std::string>{"L00.q_norm", "L00.kv_norm", "L00.r1.gathered"}))
      << Print(run.graph);
  EXPECT_TRUE(Answers(run.graph) == expected);
  // Latents wider than hidden do not pay.
  EXPECT_EQ(ReportOf(RunOn(PlacedOn(MlaBlock(96, 64), Mesh::Tp(2)),
                           {{"sequence_parallel", Switch::kOn}, {"defer_gather", Switch::kOn}}),
                     "defer_gather")
                .rewrites,
            0);
}

TEST(RegroupOProj, ReducesOverOtpAlone) {
  const Graph placed = PlacedOn(test::DecoderBody({.layers = 2}), Mesh{{{"otp", 2}, {"odp", 3}}});
  const PassRun run = RunOn(placed, {{"regroup_o_proj", Switch::kOn}});
  EXPECT_EQ(ReportOf(run, "regroup_o_proj").rewrites, 2);
  EXPECT_EQ(Count(run.graph, Op::kAllToAll), 2);
  EXPECT_EQ(Count(run.graph, Op::kAllReduce), 2) << "down_proj stays as it was";
  for (const Node& node : run.graph.nodes) {
    if (node.op == Op::kAllToAll) {
      EXPECT_EQ(GroupSizeOf(run.graph, node), 3);
      EXPECT_EQ(ToString(run.graph.value(node.in[0]).on), "S(1),S(1:1)");
      EXPECT_EQ(ToString(run.graph.value(node.out[0]).on), "S(1),S(0:1)");
    }
    if (node.op == Op::kReduceScatter) {
      EXPECT_EQ(GroupSizeOf(run.graph, node), 2);
      EXPECT_EQ(ToString(run.graph.value(node.in[0]).on), "P,S(0:1)");
      EXPECT_EQ(ToString(run.graph.value(node.out[0]).on), "S(0),S(0:1)");
    }
  }
}

TEST(RegroupOProj, IsNothingWithoutItsMesh) {
  const PassRun run =
      RunOn(test::Placed(test::DecoderBody({}), 4), {{"regroup_o_proj", Switch::kOn}});
  EXPECT_EQ(ReportOf(run, "regroup_o_proj").rewrites, 0);
}

TEST(GatherColumns, ReducesNothing) {
  const PassRun run = RunOn(
      test::Placed(test::DecoderBody({.layers = 2, .output_bias = true, .mlp_bias = true}), 3),
      {{"gather_columns", Switch::kOn}});
  EXPECT_EQ(ReportOf(run, "gather_columns").rewrites, 4);
  EXPECT_EQ(Count(run.graph, Op::kAllReduce) + Count(run.graph, Op::kReduceScatter) +
                Count(run.graph, Op::kFinish),
            0);
  EXPECT_EQ(Count(run.graph, Op::kAllGather), 8);
  for (const Value& v : run.graph.values) {
    for (const Placement& p : v.on) EXPECT_FALSE(p.partial()) << v.name;
  }
}

TEST(ShardLayers, SaysThatSharedMemoryLeavesItNothingToDo) {
  const Graph placed = PlacedOn(test::DecoderBody({}), Mesh{{{"otp", 1}, {"odp", 2}}});
  const PassRun run =
      RunOn(placed, {{"regroup_o_proj", Switch::kOn}, {"shard_layers", Switch::kOn}});
  for (const PassReport& r : run.reports) {
    if (r.name != "shard_layers") continue;
    EXPECT_TRUE(r.asked);
    EXPECT_EQ(r.rewrites, 0);
    EXPECT_EQ(r.refusal,
              "ranks share memory: every weight exists once already, and is read in place");
  }
}

TEST(ShardArgmax, SendsPairsInPlaceOfLogits) {
  for (const bool hash : {false, true}) {
    const Graph placed = test::Placed(test::DecoderHead({}, false, hash), 3);
    const PassRun run = RunOn(placed, {});
    EXPECT_EQ(ReportOf(run, "shard_argmax").rewrites, 1);
    EXPECT_EQ(Count(run.graph, Op::kPairMax), 1);
    EXPECT_EQ(Count(run.graph, Op::kAllGather), hash ? 1 : 0) << "the hash reads all of the logits";
    EXPECT_TRUE(Answers(run.graph) == Answers(placed));
  }
  EXPECT_EQ(
      ReportOf(RunOn(test::Placed(test::DecoderHead({}, false, false), 1), {}), "shard_argmax")
          .rewrites,
      0);
}

TEST(Schedules, DoNothingUnlessTheyAreAskedFor) {
  const PassRun run = RunOn(test::Placed(test::DecoderBody({}), 2), {});
  for (const char* name : {"sequence_parallel", "defer_gather", "regroup_o_proj", "gather_columns"})
    EXPECT_EQ(ReportOf(run, name).rewrites, 0) << name;
  EXPECT_EQ(Count(run.graph, Op::kAllReduce), 4);
}

// Residual and hidden on different rows, a norm of part of a sum, a gather too many, attention on
// own rows, axes in another order: every such rewrite is refused, and the message names the value.
TEST(Schedules, WrongRewritesAreRefusedByRuleAndValue) {
  const Mesh two_axes{{{"otp", 2}, {"odp", 2}}};
  const Graph lawful = RunOn(PlacedOn(test::DecoderBody({.model_dtype = DType::kF32}), two_axes),
                             {{"sequence_parallel", Switch::kOn},
                              {"regroup_o_proj", Switch::kOn},
                              {"fuse_add_rms_norm", Switch::kOff}})
                           .graph;
  const auto node_of = [](Graph& g, Op op, size_t nth = 0) -> Node& {
    for (Node& node : g.nodes) {
      if (node.op == op && nth-- == 0) return node;
    }
    ADD_FAILURE() << NameOf(op);
    std::abort();
  };
  const auto make_of = [](Graph& g, ValueId id) -> Node& {
    return g.nodes[static_cast<size_t>(g.ProducerOf(id))];
  };
  const std::vector<test::WrongRewrite> wrongs{
      {"V5", "residual on own rows, hidden whole", "'L00.attn.o.whole'",
       [&](Graph& g) {
         Node& add = node_of(g, Op::kAdd);
         const ValueId whole = AddLike(g, add.in[1], ".whole");
         g.value(whole).on = {Placement::R(), Placement::R()};
         Node gather{Op::kAllGather, {add.in[1]}, {whole}, {{"axes", int64_t{3}}}, "L00"};
         add.in[1] = whole;
         const auto at = std::find_if(g.nodes.begin(), g.nodes.end(),
                                      [&](const Node& n) { return n.op == Op::kAdd; });
         g.nodes.insert(at, gather);
       }},
      {"V6", "a norm on a partial", "roots",
       [&](Graph& g) { node_of(g, Op::kRmsNorm, 1).in[0] = node_of(g, Op::kReduceScatter).in[0]; }},
      {"V6", "a gather of what is whole", "gathered",
       [&](Graph& g) {
         Node again = node_of(g, Op::kAllGather);
         again.in[0] = again.out[0];
         again.out[0] = AddLike(g, again.in[0], ".again");
         const auto at = std::find_if(g.nodes.begin(), g.nodes.end(),
                                      [](const Node& n) { return n.op == Op::kAllGather; });
         g.nodes.insert(at + 1, again);
       }},
      {"V6", "qkv of own rows", "attn_norm",
       [&](Graph& g) {
         Node& qkv = node_of(g, Op::kMatmul);
         qkv.in[0] = make_of(g, qkv.in[0]).in[0];
       }},
      {"V5", "attention on own rows", "kv.0'",
       [&](Graph& g) {
         Node& attention = node_of(g, Op::kAttention);
         const ValueId rows = AddLike(g, attention.in[0], ".rows");
         g.value(rows).on = {Placement::S(0, 0), Placement::S(0, 1)};
         Node exchange{
             Op::kAllToAll, {attention.in[0]}, {rows}, {{"to_dim", int64_t{0}}}, "L00.attn"};
         attention.in[0] = rows;
         const auto at = std::find_if(g.nodes.begin(), g.nodes.end(),
                                      [](const Node& n) { return n.op == Op::kAttention; });
         g.nodes.insert(at, exchange);
       }},
      {"V7", "rows by (odp, otp) where the residual has (otp, odp)", "'L00.attn.o'",
       [&](Graph& g) {
         g.value(node_of(g, Op::kReduceScatter).out[0]).on = {Placement::S(0, 1),
                                                              Placement::S(0, 0)};
       }},
      {"V7", "an all-to-all to (odp, otp)", "regrouped",
       [&](Graph& g) { node_of(g, Op::kAllToAll).Set("order", int64_t{0}); }},
      {"V6", "features cut by the minor axis alone", "regrouped",
       [&](Graph& g) {
         Node& exchange = node_of(g, Op::kAllToAll);
         exchange.Set("axes", int64_t{1});
         exchange.Set("order", int64_t{0});
         g.value(exchange.out[0]).on = {Placement::S(0, 0), Placement::S(1, 1)};
       }},
      {"V6", "reduced over odp, where it is whole", "roots",
       [&](Graph& g) { node_of(g, Op::kReduceScatter).Set("axes", int64_t{2}); }},
      {"V6", "o_proj keeps its weight cut by both axes", "regrouped",
       [&](Graph& g) {
         Node& matmul = make_of(g, node_of(g, Op::kReduceScatter).in[0]);
         g.value(matmul.in[1]).on = {Placement::S(1, 0), Placement::S(1, 1)};
       }},
      {"V6", "the answer stays on its rows", "mlp_residual",
       [&](Graph& g) { g.outputs[0] = make_of(g, g.outputs[0]).in[0]; }},
      {"V6", "a slice of rows that are own already", "attn_residual",
       [&](Graph& g) {
         Node& norm = node_of(g, Op::kRmsNorm, 1);
         const ValueId rows = AddLike(g, norm.in[0], ".rows");
         Node slice{Op::kSliceRows, {norm.in[0]}, {rows}, {}, "L00"};
         norm.in[0] = rows;
         const auto at = std::find_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
           return n.op == Op::kRmsNorm && n.in[0] == rows;
         });
         g.nodes.insert(at, slice);
       }},
  };
  test::ExpectRefused(lawful, wrongs);
}

}  // namespace
}  // namespace weft::graph
