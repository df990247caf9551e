#include "models/blocks/moe.h"

#include <gtest/gtest.h>

#include "support/model_graphs.h"
#include "support/tiny_folders.h"

namespace weft::models {
namespace {

using graph::Node;
using graph::Op;
using support::NamesOf;
using support::NodesOf;
using Names = std::vector<std::string>;

TEST(Moe, RoutesByFloat32LogitsAndKeepsExpertsWhole) {
  const auto checkpoint = support::OpenTiny("qwen35_moe_r2_4h2_bf16");
  const io::ModelConfig& config = checkpoint->config();
  const graph::Graph g = support::BodyOf(*checkpoint);
  const std::string prefix = "model.layers.0.mlp.";
  const auto router = NodesOf(g, Op::kColumnLinear, "L00.moe");
  ASSERT_EQ(router.size(), 1u)
      << "the shared expert's gate is one more output of the router's product";
  EXPECT_EQ(NamesOf(g, router[0]->in),
            (Names{"L00.mlp_norm", prefix + "gate.weight", prefix + "shared_expert_gate.weight"}));
  for (graph::ValueId id : router[0]->out) EXPECT_EQ(g.value(id).dtype, DType::kF32);
  const auto experts = NodesOf(g, Op::kExperts, "L00.moe");
  ASSERT_EQ(experts.size(), 1u);
  EXPECT_EQ(NamesOf(g, experts[0]->in),
            (Names{"L00.mlp_norm", "L00.moe.router", prefix + "experts.gate_proj.weight",
                   prefix + "experts.up_proj.weight", prefix + "experts.down_proj.weight"}));
  EXPECT_EQ(experts[0]->Int("top_k"), config.experts_per_token);
  EXPECT_EQ(experts[0]->Int("renormalise"), 1);
  const graph::Value& down = g.value(experts[0]->in[4]);
  EXPECT_EQ(g.tables[down.dims[0].table].leaves.count(),
            std::min<int64_t>(config.experts, kLeavesMax));
  EXPECT_EQ(down.dims[2].table, -1) << "no rank cuts what an expert sums over";
}

TEST(Moe, AddsTheGatedExpertThatAllTokensShare) {
  const graph::Graph g = support::BodyOf(*support::OpenTiny("qwen35_moe_r2_4h2_bf16"));
  const auto gated = NodesOf(g, Op::kGateRows, "L00.shared");
  ASSERT_EQ(gated.size(), 1u);
  EXPECT_EQ(NamesOf(g, gated[0]->in), (Names{"L00.shared.down_proj", "L00.moe.shared_gate"}));
  const auto sum = NodesOf(g, Op::kAdd, "L00.shared");
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_EQ(NamesOf(g, sum[0]->in), (Names{"L00.moe.experts", "L00.shared.gated"}));
}

TEST(Moe, LayersWithoutExpertsAreDense) {
  const auto checkpoint = support::OpenTiny("qwen3_moe_6h2_bf16");
  const graph::Graph g = support::BodyOf(*checkpoint);
  ASSERT_FALSE(checkpoint->config().dense_layers.empty());
  for (int layer = 0; layer < checkpoint->config().layers; ++layer) {
    const bool moe = checkpoint->config().IsMoe(layer);
    EXPECT_EQ(NodesOf(g, Op::kExperts, fmt::format("L{:02}.moe", layer)).size(), moe ? 1u : 0u);
    EXPECT_EQ(NodesOf(g, Op::kSwiGlu, fmt::format("L{:02}.mlp", layer)).size(), moe ? 0u : 1u);
    EXPECT_TRUE(NodesOf(g, Op::kGateRows, fmt::format("L{:02}.shared", layer)).empty())
        << "this family shares none";
  }
}

}  // namespace
}  // namespace weft::models
