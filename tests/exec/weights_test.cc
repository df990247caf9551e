// Params that are more than a matrix of a file: experts, sections, columns in another order.
#include "exec/weights.h"

#include <gtest/gtest.h>

#include "kernels/matmul/pack.h"
#include "support/value_checkpoint.h"

namespace weft::exec {
namespace {

using graph::Dim;
using support::Numbered;

// Two key heads of two value heads of 32, three experts.
constexpr std::string_view kConfig =
    R"({"architectures": ["Qwen3_5MoeForCausalLM"], "hidden_size": 40, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 7, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4})";

graph::Graph Reading(const std::string& param, std::vector<Dim> dims) {
  graph::Graph g;
  g.tables.push_back({.name = "cut", .leaves = LeafTable::Make(dims.back().n, 32)});
  graph::Value v;
  v.name = param;
  v.kind = graph::ValueKind::kParam;
  v.dtype = DType::kF32;
  v.dims = std::move(dims);
  g.values.push_back(std::move(v));
  return g;
}

// A matrix as the kernels see it, unpacked.
std::vector<float> Unpacked(const Weights& weights, const graph::Graph& g, int64_t expert) {
  const graph::Value& v = g.value(0);
  const int64_t n = v.dims[v.dims.size() - 2].n, k = v.dims.back().n;
  const PackedTable table = weights.TableOf(g, {0}, 0, false, expert);
  const size_t panels = table.panel_begin.size() - 1;
  std::vector<float> out(static_cast<size_t>(n * k));
  for (size_t leaf = 0; leaf + 1 < table.k_begin.size(); ++leaf) {
    const int32_t k_begin = table.k_begin[leaf], width = table.k_begin[leaf + 1] - k_begin;
    for (size_t p = 0; p < panels; ++p) {
      for (int32_t i = table.panel_begin[p]; i < table.panel_begin[p + 1]; ++i) {
        kernels::UnpackPanelRow(v.dtype, table.data[leaf * panels + p], width,
                                i - table.panel_begin[p], out.data() + i * k + k_begin);
      }
    }
  }
  return out;
}

std::unique_ptr<Weights> Load(const io::Checkpoint& checkpoint, const graph::Graph& g) {
  auto weights = Weights::Load(checkpoint, {&g}, 2, nullptr);
  EXPECT_TRUE(weights.ok()) << weights.status().message();
  return std::move(weights).value();
}

TEST(Weights, EachExpertIsAMatrixOfItsOwn) {
  const auto checkpoint = support::OpenValues(
      std::string(kConfig), {Numbered("model.layers.0.mlp.experts.gate_up_proj", {3, 40, 40})});
  const std::string param = "model.layers.0.mlp.experts.up_proj.weight";
  const graph::Graph g = Reading(param, {Dim::C(3), Dim::C(20), Dim::C(40)});
  const auto weights = Load(*checkpoint, g);
  const std::vector<float> all = models::FindWeight(*checkpoint, param).value().Values();
  for (int64_t expert = 0; expert < 3; ++expert) {
    const auto begin = all.begin() + expert * 20 * 40;
    EXPECT_EQ(Unpacked(*weights, g, expert), std::vector<float>(begin, begin + 20 * 40));
  }
  EXPECT_EQ(all[20 * 40], 60) << "the second expert's up lies behind its gate";
}

TEST(Weights, ColumnsInAnotherOrderAreCutInOurs) {
  io::GgufWriter w;
  w.String("general.architecture", "qwen35");
  for (const auto& [key, n] :
       std::vector<std::pair<std::string, uint32_t>>{{"block_count", 1},
                                                     {"context_length", 64},
                                                     {"embedding_length", 40},
                                                     {"feed_forward_length", 4},
                                                     {"attention.head_count", 2},
                                                     {"attention.key_length", 8},
                                                     {"vocab_size", 7},
                                                     {"ssm.group_count", 2},
                                                     {"ssm.time_step_rank", 4},
                                                     {"ssm.state_size", 4},
                                                     {"ssm.conv_kernel", 4},
                                                     {"ssm.inner_size", 128}}) {
    w.U32("qwen35." + key, n);
  }
  w.F32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
  const auto checkpoint = support::OpenValuesGguf(w, {Numbered("blk.0.ssm_out.weight", {40, 128})});
  const std::string param = "model.layers.0.linear_attn.out_proj.weight";
  const graph::Graph g = Reading(param, {Dim::C(40), Dim::C(128, 0)});
  const std::vector<float> packed = Unpacked(*Load(*checkpoint, g), g, 0);
  EXPECT_EQ(packed, models::FindWeight(*checkpoint, param).value().Values());
  EXPECT_EQ(packed[128 + 32], 1 + 64 / 1024.0f) << "the second head lies third in the file";
}

TEST(Weights, VectorsAreChangedAsTheyAreRead) {
  const auto checkpoint =
      support::OpenValues(std::string(kConfig), {Numbered("model.norm.weight", {40})});
  const graph::Graph g = Reading("model.norm.weight", {Dim::C(40)});
  EXPECT_EQ(Load(*checkpoint, g)->VectorOf(g, 0, 0)[3], 4.0f);
}

}  // namespace
}  // namespace weft::exec
