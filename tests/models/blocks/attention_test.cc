#include "models/blocks/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/model_graphs.h"

namespace weft::models {
namespace {

using graph::Node;
using graph::Op;
using support::DecoderSpec;
using support::NamesOf;
using support::NodesOf;
using Names = std::vector<std::string>;

const std::string kAttentionPrefix = "model.layers.0.self_attn.";

graph::Graph Body(const DecoderSpec& spec) { return support::BodyOf(*support::OpenSparse(spec)); }

TEST(Attention, ProjectsRotatesAttendsAndSumsOverHeads) {
  const DecoderSpec spec{.layers = 1, .hidden = 96, .heads = 6, .kv_heads = 2, .head_dim = 32};
  const graph::Graph g = Body(spec);
  const auto qkv = NodesOf(g, Op::kColumnLinear, "L00.attn");
  ASSERT_EQ(qkv.size(), 1u) << "one node, so that one kernel reads x once";
  EXPECT_EQ(NamesOf(g, qkv[0]->in),
            (Names{"L00.attn_norm", kAttentionPrefix + "q_proj.weight",
                   kAttentionPrefix + "k_proj.weight", kAttentionPrefix + "v_proj.weight"}));
  EXPECT_EQ(g.value(qkv[0]->out[0]).dims[1].n, 6 * 32);
  EXPECT_EQ(g.value(qkv[0]->out[1]).dims[1].n, 2 * 32);
  const auto ropes = NodesOf(g, Op::kRope, "L00.attn");
  ASSERT_EQ(ropes.size(), 2u);
  EXPECT_EQ(NamesOf(g, ropes[0]->in), (Names{"L00.attn.q", "positions"}));
  EXPECT_EQ(NamesOf(g, ropes[1]->in), (Names{"L00.attn.k", "positions"}));
  EXPECT_EQ(ropes[0]->Int("head_dim"), 32);
  EXPECT_EQ(ropes[0]->Int("rot"), 32);
  const auto attention = NodesOf(g, Op::kSelfAttention, "L00.attn");
  ASSERT_EQ(attention.size(), 1u);
  EXPECT_EQ(NamesOf(g, attention[0]->in), (Names{"L00.attn.q_rope", "L00.attn.k_rope", "L00.attn.v",
                                                 "kv.0", "slots", "segments"}));
  EXPECT_EQ(attention[0]->Int("group"), 3) << "query heads a kv head";
  EXPECT_EQ(attention[0]->Real("scale"), 1 / std::sqrt(32.0));
  const auto o = NodesOf(g, Op::kRowLinear, "L00.attn");
  ASSERT_EQ(o.size(), 1u);
  EXPECT_EQ(NamesOf(g, o[0]->in),
            (Names{"L00.attn.attention", kAttentionPrefix + "o_proj.weight"}));
}

TEST(Attention, BiasesAreWhereTheConfigurationHasThem) {
  struct Case {
    const char* architecture;
    bool attention_bias, output_bias;
    Names qkv;
    bool o;
  };
  const Names all{"q_proj.bias", "k_proj.bias", "v_proj.bias"};
  for (const Case& c : {Case{"LlamaForCausalLM", false, false, {}, false},
                        Case{"LlamaForCausalLM", true, true, all, true},
                        Case{"Qwen2ForCausalLM", true, false, all, false},
                        Case{"Qwen3ForCausalLM", true, true, all, true}}) {
    DecoderSpec spec{.architecture = c.architecture,
                     .layers = 1,
                     .attention_bias = c.attention_bias,
                     .output_bias = c.output_bias};
    spec.qk_norm = spec.architecture == "Qwen3ForCausalLM";
    const graph::Graph g = Body(spec);
    const Node& qkv = *NodesOf(g, Op::kColumnLinear, "L00.attn").at(0);
    Names biases;
    for (const graph::ValueId id : OperandsOf(qkv).biases) {
      if (id == graph::kNoValue) continue;
      biases.push_back(g.value(id).name.substr(kAttentionPrefix.size()));
      EXPECT_EQ(g.value(id).dims[0].table, g.value(qkv.out[biases.size() - 1]).dims[1].table)
          << "a bias is cut where its outputs are";
    }
    EXPECT_EQ(biases, c.qkv) << c.architecture;
    const Node& o = *NodesOf(g, Op::kRowLinear, "L00.attn").at(0);
    ASSERT_EQ(OperandsOf(o).biases[0] != graph::kNoValue, c.o) << c.architecture;
    if (c.o) {
      EXPECT_EQ(g.value(OperandsOf(o).biases[0]).name, kAttentionPrefix + "o_proj.bias");
    }
  }
}

TEST(Attention, ANormPerHeadStandsBeforeRope) {
  const DecoderSpec spec{
      .architecture = "Qwen3ForCausalLM", .layers = 1, .heads = 6, .kv_heads = 3, .qk_norm = true};
  const graph::Graph g = Body(spec);
  const auto norms = NodesOf(g, Op::kRmsNorm, "L00.attn");
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_EQ(NamesOf(g, norms[0]->in), (Names{"L00.attn.q", kAttentionPrefix + "q_norm.weight"}));
  EXPECT_EQ(NamesOf(g, norms[1]->in), (Names{"L00.attn.k", kAttentionPrefix + "k_norm.weight"}));
  EXPECT_EQ(norms[0]->Int("groups"), 6);
  EXPECT_EQ(norms[1]->Int("groups"), 3);
  for (const Node* norm : norms) {
    EXPECT_EQ(norm->Int("width"), 16);
    EXPECT_EQ(norm->Real("eps"), 1e-5);
  }
  const auto ropes = NodesOf(g, Op::kRope, "L00.attn");
  EXPECT_EQ(NamesOf(g, ropes[0]->in), (Names{"L00.attn.q_norm", "positions"}));
  EXPECT_EQ(NamesOf(g, ropes[1]->in), (Names{"L00.attn.k_norm", "positions"}));
}

TEST(Attention, TurnsAPartOfAHeadWhereTheConfigurationSaysSo) {
  DecoderSpec spec{.layers = 1, .head_dim = 32};
  spec.more_config = R"(, "partial_rotary_factor": 0.5)";
  const graph::Graph g = Body(spec);
  for (const Node* rope : NodesOf(g, Op::kRope, "L00.attn")) {
    EXPECT_EQ(rope->Int("head_dim"), 32);
    EXPECT_EQ(rope->Int("rot"), 16);
  }
}

TEST(Attention, TheCacheHoldsKeysAndValuesOfTheKvHeads) {
  const graph::Graph g = Body({.layers = 2, .heads = 6, .kv_heads = 2});
  for (const char* name : {"kv.0", "kv.1"}) {
    const graph::Value& kv = g.value(g.Find(name));
    EXPECT_EQ(kv.kind, graph::ValueKind::kState);
    EXPECT_EQ(kv.dims[0].n, 2);
    EXPECT_EQ(kv.dims[1].n, 2 * 16);
    const graph::AxisTable& table = g.tables[kv.dims[1].table];
    EXPECT_EQ(table.leaves.count(), 2) << "a leaf per kv head";
    EXPECT_EQ(table.follow_width, 3 * 16) << "which serves the query heads of its group";
    EXPECT_EQ(g.tables[table.follows].name,
              std::string(name) == "kv.0" ? "L00.heads" : "L01.heads");
  }
}

}  // namespace
}  // namespace weft::models
