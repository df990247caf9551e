#include "models/blocks/mlp.h"

#include <gtest/gtest.h>

#include "support/model_graphs.h"

namespace weft::models {
namespace {

using graph::Node;
using graph::Op;
using support::DecoderSpec;
using support::NamesOf;
using support::NodesOf;
using Names = std::vector<std::string>;

const std::string kMlpPrefix = "model.layers.0.mlp.";

TEST(Mlp, GatesAndSums) {
  const graph::Graph g = support::BodyOf(*support::OpenSparse({.layers = 1, .width = 100}));
  const auto gate_up = NodesOf(g, Op::kColumnLinear, "L00.mlp");
  ASSERT_EQ(gate_up.size(), 1u) << "one node, so that one kernel reads x once";
  EXPECT_EQ(NamesOf(g, gate_up[0]->in), (Names{"L00.mlp_norm", kMlpPrefix + "gate_proj.weight",
                                               kMlpPrefix + "up_proj.weight"}));
  const auto act = NodesOf(g, Op::kSwiGlu, "L00.mlp");
  ASSERT_EQ(act.size(), 1u);
  EXPECT_EQ(NamesOf(g, act[0]->in), (Names{"L00.mlp.gate", "L00.mlp.up"}))
      << "silu of the gate, times up";
  const auto down = NodesOf(g, Op::kRowLinear, "L00.mlp");
  ASSERT_EQ(down.size(), 1u);
  EXPECT_EQ(NamesOf(g, down[0]->in),
            (Names{g.value(act[0]->out[0]).name, kMlpPrefix + "down_proj.weight"}));
  // One table cuts what gate and up make and what down sums over.
  const int table = g.value(gate_up[0]->out[0]).dims[1].table;
  EXPECT_EQ(g.tables[table].name, "L00.ffn");
  EXPECT_EQ(g.tables[table].leaves, LeafTable::Make(100, 32));
  EXPECT_EQ(g.value(gate_up[0]->out[1]).dims[1].table, table);
  EXPECT_EQ(g.value(OperandsOf(*down[0]).weights[0]).dims[1].table, table);
}

TEST(Mlp, HasThreeBiasesOrNone) {
  for (const bool bias : {false, true}) {
    const graph::Graph g = support::BodyOf(*support::OpenSparse({.layers = 1, .mlp_bias = bias}));
    Names biases;
    for (const Op op : {Op::kColumnLinear, Op::kRowLinear}) {
      for (const graph::ValueId id : OperandsOf(*NodesOf(g, op, "L00.mlp").at(0)).biases) {
        if (id != graph::kNoValue) biases.push_back(g.value(id).name);
      }
    }
    const Names all{kMlpPrefix + "gate_proj.bias", kMlpPrefix + "up_proj.bias",
                    kMlpPrefix + "down_proj.bias"};
    EXPECT_EQ(biases, bias ? all : Names{});
  }
}

}  // namespace
}  // namespace weft::models
