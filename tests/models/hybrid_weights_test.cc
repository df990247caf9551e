// Sections of fused tensors, experts and value heads: each value comes back where it belongs.
// Covers src/models/weights.cc
#include "models/hybrid_model.h"

namespace weft::models {
namespace {

TEST(FindHybridWeight, QueriesAndGatesLieHeadByHead) {
  const auto w = With(kMoe35, Numbered("model.layers.1.self_attn.q_proj.weight", {16, kHidden}));
  const WeightSource q = Found(w, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(q.shape, (Shape{8, kHidden}));
  EXPECT_EQ(RowsOf(q), (Rows{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.1.self_attn.q_gate.weight")),
            (Rows{4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(q.Values()[9], 1 + 1 / 1024.0f) << "a whole row";

  const auto bias = With(kMoe35, Numbered("model.layers.1.self_attn.q_proj.bias", {16}));
  EXPECT_EQ(RowsOf(Found(bias, "model.layers.1.self_attn.q_gate.bias")),
            (Rows{4, 5, 6, 7, 12, 13, 14, 15}));
  const auto draft = With(kMoe35, Numbered("mtp.layers.0.self_attn.q_proj.weight", {16, kHidden}));
  EXPECT_EQ(RowsOf(Found(draft, "mtp.layers.0.self_attn.q_proj.weight")),
            (Rows{0, 1, 2, 3, 8, 9, 10, 11}));
}

TEST(FindHybridWeight, AModelWithoutOutputGateHasWholeQueries) {
  const auto w = OpenValues(Config(kMoe35, R"(, "attn_output_gate": false)"),
                            {Numbered("model.layers.1.self_attn.q_proj.weight", {8, kHidden})});
  EXPECT_EQ(Found(w, "model.layers.1.self_attn.q_proj.weight").shape, (Shape{8, kHidden}));
  EXPECT_FALSE(FindWeight(*w, "model.layers.1.self_attn.q_gate.weight").ok());
}

TEST(FindHybridWeight, ProjectionsOfLinearAttentionAreSideBySide) {
  const auto w = With(kMoe35, Numbered("model.layers.0.linear_attn.in_proj_qkv.weight",
                                       {2 * kKeys + kValues, kHidden}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_q.weight")), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_k.weight")), (Rows{4, 5, 6, 7}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_v.weight")),
            (Rows{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  const auto b =
      With(kMoe35, Numbered("model.layers.0.linear_attn.in_proj_b.weight", {kValueHeads, kHidden}));
  EXPECT_EQ(RowsOf(Found(b, "model.layers.0.linear_attn.in_proj_b.weight")),
            (Rows{0, 1, 2, 3, 4, 5}));
}

TEST(FindHybridWeight, FusedProjectionsAreInterleavedByKeyHead) {
  // Per key head: q 2, k 2, v 6, z 6.
  const auto w = With(kNext, Numbered("model.layers.0.linear_attn.in_proj_qkvz.weight",
                                      {2 * (kKeys + kValues), kHidden}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_q.weight")), (Rows{0, 1, 16, 17}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_k.weight")), (Rows{2, 3, 18, 19}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_v.weight")),
            (Rows{4, 5, 6, 7, 8, 9, 20, 21, 22, 23, 24, 25}));
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.in_proj_z.weight")),
            (Rows{10, 11, 12, 13, 14, 15, 26, 27, 28, 29, 30, 31}));
  const auto ba = With(
      kNext, Numbered("model.layers.0.linear_attn.in_proj_ba.weight", {2 * kValueHeads, kHidden}));
  EXPECT_EQ(RowsOf(Found(ba, "model.layers.0.linear_attn.in_proj_b.weight")),
            (Rows{0, 1, 2, 6, 7, 8}));
  EXPECT_EQ(RowsOf(Found(ba, "model.layers.0.linear_attn.in_proj_a.weight")),
            (Rows{3, 4, 5, 9, 10, 11}));
}

TEST(FindHybridWeight, TheConvolutionsMiddleDimensionGoes) {
  const auto w = With(
      kNext, Numbered("model.layers.0.linear_attn.conv1d.weight", {2 * kKeys + kValues, 1, kTaps}));
  const WeightSource k = Found(w, "model.layers.0.linear_attn.conv1d_k.weight");
  EXPECT_EQ(k.shape, (Shape{kKeys, kTaps}));
  EXPECT_EQ(RowsOf(k), (Rows{4, 5, 6, 7}));
  EXPECT_EQ(k.Values()[5], 5 + 1 / 1024.0f) << "taps ascend";
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.conv1d_v.weight")).front(), 8);
}

TEST(FindHybridWeight, GainsAndDecaysAreRead) {
  const auto w =
      OpenValues(Config(kMoe35), {Numbered("model.layers.0.input_layernorm.weight", {kHidden}),
                                  Numbered("model.layers.1.self_attn.k_norm.weight", {kHeadDim}),
                                  Numbered("model.norm.weight", {kHidden}),
                                  Numbered("mtp.pre_fc_norm_hidden.weight", {kHidden}),
                                  Numbered("model.layers.0.linear_attn.norm.weight", {kValueDim}),
                                  Numbered("model.layers.0.linear_attn.A_log", {kValueHeads}),
                                  Numbered("model.layers.0.linear_attn.dt_bias", {kValueHeads})});
  for (const char* gain :
       {"model.layers.0.input_layernorm.weight", "model.layers.1.self_attn.k_norm.weight",
        "model.norm.weight", "mtp.pre_fc_norm_hidden.weight"}) {
    EXPECT_EQ(RowsOf(Found(w, gain)).front(), 1) << gain << ": 0 means 1 + 0";
  }
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.linear_attn.norm.weight")).front(), 0)
      << "this one is what it says";
  EXPECT_EQ(Found(w, "model.layers.0.linear_attn.A_log").Values()[2],
            static_cast<float>(-std::exp(2.0)));
  EXPECT_EQ(Found(w, "model.layers.0.linear_attn.dt_bias").Values()[2], 2.0f);
  const auto plain = OpenValues(
      R"({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "vocab_size": 7, "max_position_embeddings": 64, "rms_norm_eps": 1e-06, "rope_theta": 1e4,
      "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 4})",
      {Numbered("model.norm.weight", {kHidden})});
  EXPECT_EQ(RowsOf(Found(plain, "model.norm.weight")).front(), 0) << "a family with plain gains";
}

TEST(FindHybridWeight, ExpertsAreOneParamHoweverTheyAreFiled) {
  const auto fused = OpenValues(
      Config(kMoe35),
      {Numbered("model.layers.0.mlp.experts.gate_up_proj", {kExperts, 2 * kWidth, kHidden}),
       Numbered("model.layers.0.mlp.experts.down_proj", {kExperts, kHidden, kWidth})});
  const WeightSource gate = Found(fused, "model.layers.0.mlp.experts.gate_proj.weight");
  EXPECT_EQ(gate.shape, (Shape{kExperts, kWidth, kHidden}));
  EXPECT_EQ(RowsOf(gate), (Rows{0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}));
  EXPECT_EQ(RowsOf(Found(fused, "model.layers.0.mlp.experts.up_proj.weight")),
            (Rows{5, 6, 7, 8, 9, 15, 16, 17, 18, 19, 25, 26, 27, 28, 29}));
  const WeightSource down = Found(fused, "model.layers.0.mlp.experts.down_proj.weight");
  EXPECT_EQ(down.shape, (Shape{kExperts, kHidden, kWidth}));
  EXPECT_EQ(RowsOf(down).back(), 23);

  std::vector<ValueTensor> each;
  for (int64_t e = 0; e < kExperts; ++e) {
    each.push_back(
        Numbered(fmt::format("mtp.layers.0.mlp.experts.{}.up_proj.weight", e), {kWidth, kHidden}));
    for (float& w : each.back().values) w += static_cast<float>(100 * e);
  }
  const auto apart = OpenValues(Config(kNext), each);
  const WeightSource up = Found(apart, "mtp.layers.0.mlp.experts.up_proj.weight");
  EXPECT_EQ(up.tensors.size(), 3u);
  EXPECT_EQ(RowsOf(up), (Rows{0, 1, 2, 3, 4, 100, 101, 102, 103, 104, 200, 201, 202, 203, 204}));
  EXPECT_EQ(
      FindWeight(*apart, "mtp.layers.0.mlp.experts.gate_proj.weight").status().message(),
      apart.folder->path() + ": tensor 'mtp.layers.0.mlp.experts.0.gate_proj.weight' is missing");
}

TEST(FindHybridWeight, TheLanguageModelMayStandInsideAnother) {
  const std::string config = fmt::format(
      R"({{"architectures": ["Qwen3_5MoeForConditionalGeneration"], "vision_config": {{}},
                                             "text_config": {}}})",
      Config(kMoe35));
  for (const std::string prefix : {"model.language_model.", "language_model.model."}) {
    const auto w =
        OpenValues(config, {Numbered(prefix + "embed_tokens.weight", {kVocab, kHidden}),
                            Numbered(prefix + "layers.0.mlp.gate.weight", {kExperts, kHidden}),
                            Numbered("lm_head.weight", {kVocab, kHidden})});
    EXPECT_EQ(Found(w, "model.layers.0.mlp.gate.weight").tensor().name,
              prefix + "layers.0.mlp.gate.weight");
    EXPECT_EQ(Found(w, "lm_head.weight").tensor().name, "lm_head.weight");
    EXPECT_EQ(FindWeight(*w, "model.layers.0.linear_attn.in_proj_k.weight").status().message(),
              fmt::format("{}: tensor '{}layers.0.linear_attn.in_proj_qkv.weight' is missing",
                          w.folder->path(), prefix));
  }
}

TEST(FindHybridWeight, RefusesTensorsOfAnotherShape) {
  struct Case {
    const char *tensor, *param;
    Shape shape, expected;
  };
  for (const Case& c :
       {Case{"self_attn.q_proj.weight", "self_attn.q_gate.weight", {8, 8}, {16, 8}},
        Case{"linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_v.weight", {24, 8}, {20, 8}},
        Case{"linear_attn.in_proj_z.weight", "linear_attn.in_proj_z.weight", {14, 8}, {12, 8}},
        Case{"linear_attn.in_proj_ba.weight", "linear_attn.in_proj_a.weight", {6, 8}, {12, 8}},
        Case{"linear_attn.conv1d.weight", "linear_attn.conv1d_q.weight", {20, 4, 1}, {20, 1, 4}},
        Case{"linear_attn.A_log", "linear_attn.A_log", {5}, {6}},
        Case{"linear_attn.out_proj.weight", "linear_attn.out_proj.weight", {8, 8}, {8, 12}},
        Case{"mlp.experts.gate_up_proj", "mlp.experts.up_proj.weight", {3, 5, 8}, {3, 10, 8}},
        Case{"mlp.experts.0.down_proj.weight", "mlp.experts.down_proj.weight", {8, 4}, {8, 5}}}) {
    const std::string at = "model.layers.0.";
    const auto w = With(kMoe35, Numbered(at + c.tensor, c.shape));
    EXPECT_EQ(FindWeight(*w, at + c.param).status().message(),
              fmt::format("{}: tensor '{}{}' has shape [{}], [{}] expected", w.folder->path(), at,
                          c.tensor, fmt::join(c.shape, ", "), fmt::join(c.expected, ", ")));
  }
  const auto mixed =
      With(kMoe35, Numbered("model.layers.0.linear_attn.in_proj_qkv.weight", {20, 8}));
  for (const char* unknown : {"in_proj_x.weight", "in_proj_q", "in_proj_qkv.weight",
                              "conv1d_z.weight", "conv1d_q.bias", "scale"}) {
    EXPECT_FALSE(FindWeight(*mixed, std::string("model.layers.0.linear_attn.") + unknown).ok())
        << unknown;
  }
  EXPECT_FALSE(FindWeight(*mixed, "model.layers.0.mlp.experts.weight").ok());
}

}  // namespace
}  // namespace weft::models
