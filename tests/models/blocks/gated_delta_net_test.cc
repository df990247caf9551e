#include "models/blocks/gated_delta_net.h"

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

class GatedDeltaNet : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<io::Checkpoint> checkpoint_ = support::OpenTiny(GetParam());
  graph::Graph graph_ = support::BodyOf(*checkpoint_);
};

TEST_P(GatedDeltaNet, StandsWhereTheConfigurationSaysAndNowhereElse) {
  for (int layer = 0; layer < checkpoint_->config().layers; ++layer) {
    const bool linear = checkpoint_->config().KindOf(layer) == io::LayerKind::kLinearAttention;
    EXPECT_EQ(NodesOf(graph_, Op::kGatedDelta, fmt::format("L{:02}.gdn", layer)).size(),
              linear ? 1u : 0u);
    EXPECT_EQ(NodesOf(graph_, Op::kSelfAttention, fmt::format("L{:02}.attn", layer)).size(),
              linear ? 0u : 1u);
  }
}

TEST_P(GatedDeltaNet, ConvolvesThenRecursThenNorms) {
  const io::LinearAttentionConfig& linear = checkpoint_->config().linear;
  int layer = 0;
  while (checkpoint_->config().KindOf(layer) != io::LayerKind::kLinearAttention) ++layer;
  const std::string label = fmt::format("L{:02}.gdn", layer),
                    prefix = fmt::format("model.layers.{}.linear_attn.", layer);
  const auto in = NodesOf(graph_, Op::kColumnLinear, label);
  ASSERT_EQ(in.size(), 1u) << "one node, so that one kernel reads x once";
  EXPECT_EQ(NamesOf(graph_, in[0]->out), (Names{label + ".q", label + ".k", label + ".v",
                                                label + ".z", label + ".b", label + ".a"}));
  const auto convs = NodesOf(graph_, Op::kCausalConv, label);
  ASSERT_EQ(convs.size(), 3u);
  EXPECT_EQ(NamesOf(graph_, convs[2]->in), (Names{fmt::format("conv.{}.v", layer), label + ".v",
                                                  prefix + "conv1d_v.weight", "segments"}));
  EXPECT_EQ(graph_.value(convs[0]->in[0]).dims[0].n, linear.conv_kernel - 1);
  const auto delta = NodesOf(graph_, Op::kGatedDelta, label);
  ASSERT_EQ(delta.size(), 1u);
  EXPECT_EQ(
      NamesOf(graph_, delta[0]->in),
      (Names{fmt::format("gdn.{}", layer), label + ".conv_q", label + ".conv_k", label + ".conv_v",
             label + ".a", label + ".b", prefix + "A_log", prefix + "dt_bias", "segments"}));
  EXPECT_EQ(graph_.value(delta[0]->in[0]).dtype, DType::kF32);
  const auto norm = NodesOf(graph_, Op::kGatedRmsNorm, label);
  ASSERT_EQ(norm.size(), 1u);
  EXPECT_EQ(NamesOf(graph_, norm[0]->in),
            (Names{label + ".delta", label + ".z", prefix + "norm.weight"}));
  EXPECT_EQ(norm[0]->Int("groups"), linear.value_heads);
}

// A rank has the key heads that its value heads read, and the gates of all heads.
TEST_P(GatedDeltaNet, KeyHeadsFollowValueHeads) {
  const io::LinearAttentionConfig& linear = checkpoint_->config().linear;
  for (const Node& node : graph_.nodes) {
    if (node.op != Op::kGatedDelta) continue;
    const graph::Dim &k = graph_.value(node.in[2]).dims[1], &v = graph_.value(node.in[3]).dims[1];
    EXPECT_EQ(graph_.tables[k.table].follows, v.table);
    EXPECT_EQ(graph_.tables[k.table].follow_width,
              linear.value_heads / linear.key_heads * linear.value_dim);
    EXPECT_EQ(graph_.tables[k.table].leaves.count(), linear.key_heads);
    for (size_t i : {4, 5}) EXPECT_EQ(graph_.value(node.in[i]).dims[1].table, -1);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, GatedDeltaNet,
                         ::testing::Values("qwen35_moe_r2_4h2_bf16", "qwen35_tied_r3_4h1_bf16",
                                           "qwen3_next_r1_4h2_bf16"));

}  // namespace
}  // namespace weft::models
