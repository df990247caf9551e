// Whole hybrid models: under each name both formats have the same values, and what is not read is
// told.
// Covers src/models/weights.cc
#include <cmath>
#include <set>

#include "models/hybrid_model.h"
#include "support/tiny_folders.h"

namespace weft::models {
namespace {

// Value heads side by side: those of all key heads that come first, then all that come second.
ValueTensor Tiled(ValueTensor t, int64_t first_row, int64_t head_rows) {
  const ValueTensor grouped = t;
  const int64_t columns = t.shape.size() > 1 ? t.shape.back() : 1;
  for (int64_t g = 0; g < kKeyHeads; ++g) {
    for (int64_t i = 0; i < kRatio; ++i) {
      const int64_t from = (first_row + (g * kRatio + i) * head_rows) * columns,
                    to = (first_row + (i * kKeyHeads + g) * head_rows) * columns;
      std::copy_n(grouped.values.begin() + from, head_rows * columns, t.values.begin() + to);
    }
  }
  return t;
}

ValueTensor Transposed(const ValueTensor& t) {
  ValueTensor out{t.name, t.dtype, {t.shape[1], t.shape[0]}, t.values};
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    for (int64_t j = 0; j < t.shape[1]; ++j) {
      out.values[static_cast<size_t>(j * t.shape[0] + i)] =
          t.values[static_cast<size_t>(i * t.shape[1] + j)];
    }
  }
  return out;
}

ValueTensor Named(std::string name, ValueTensor t) {
  t.name = std::move(name);
  return t;
}

// Rows [begin, end) of the second dimension from the end.
ValueTensor RowsOfEach(const ValueTensor& t, int64_t begin, int64_t end) {
  ValueTensor out{t.name, t.dtype, {t.shape[0], end - begin, t.shape[2]}, {}};
  for (int64_t e = 0; e < t.shape[0]; ++e) {
    const auto from = t.values.begin() + (e * t.shape[1] + begin) * t.shape[2];
    out.values.insert(out.values.end(), from, from + (end - begin) * t.shape[2]);
  }
  return out;
}

// What a converter makes of a tensor of a qwen3_5 (`tiled`) or a qwen3_next.
class Converter {
 public:
  explicit Converter(bool tiled) : tiled_(tiled) {}

  std::vector<ValueTensor> Convert(const std::vector<ValueTensor>& tensors) {
    for (const ValueTensor& t : tensors) ConvertOne(t);
    return std::move(out_);
  }

 private:
  void ConvertOne(const ValueTensor& t) {
    if (t.name == "model.embed_tokens.weight") return Add("token_embd.weight", t);
    if (t.name == "lm_head.weight") return Add("output.weight", t);
    if (t.name == "model.norm.weight") return Add("output_norm.weight", PlusOne(t));
    if (t.name == "mtp.fc.weight") return Add("blk.2.nextn.eh_proj.weight", t);
    if (t.name == "mtp.norm.weight") return Add("blk.2.nextn.shared_head_norm.weight", PlusOne(t));
    if (t.name == "mtp.pre_fc_norm_embedding.weight")
      return Add("blk.2.nextn.enorm.weight", PlusOne(t));
    if (t.name == "mtp.pre_fc_norm_hidden.weight")
      return Add("blk.2.nextn.hnorm.weight", PlusOne(t));
    const bool draft = t.name.starts_with("mtp.");
    const std::string stem =
        draft ? "mtp.layers.0." : t.name.substr(0, std::string("model.layers.0.").size());
    const std::string at =
        fmt::format("blk.{}.", draft ? 2 : t.name[std::string("model.layers.").size()] - '0');
    const std::string rest = t.name.substr(stem.size());
    const auto is = [&](const char* name) { return rest == name; };
    if (is("input_layernorm.weight")) return Add(at + "attn_norm.weight", PlusOne(t));
    if (is("post_attention_layernorm.weight"))
      return Add(at + "post_attention_norm.weight", PlusOne(t));
    if (is("self_attn.q_norm.weight")) return Add(at + "attn_q_norm.weight", PlusOne(t));
    if (is("self_attn.k_norm.weight")) return Add(at + "attn_k_norm.weight", PlusOne(t));
    if (is("linear_attn.in_proj_qkv.weight"))
      return Add(at + "attn_qkv.weight", Heads(t, 2 * kKeys, kValueDim));
    if (is("linear_attn.in_proj_z.weight"))
      return Add(at + "attn_gate.weight", Heads(t, 0, kValueDim));
    if (is("linear_attn.in_proj_b.weight")) return Add(at + "ssm_beta.weight", Heads(t, 0, 1));
    if (is("linear_attn.in_proj_a.weight")) return Add(at + "ssm_alpha.weight", Heads(t, 0, 1));
    if (is("linear_attn.in_proj_qkvz.weight")) return SplitByKind(at, t);
    if (is("linear_attn.in_proj_ba.weight")) return Add(at + "ssm_ba.weight", t);
    if (is("linear_attn.conv1d.weight")) {
      ValueTensor flat = t;
      flat.shape = {t.shape[0], t.shape[2]};
      return Add(at + "ssm_conv1d.weight", Heads(flat, 2 * kKeys, kValueDim));
    }
    if (is("linear_attn.A_log")) {
      ValueTensor decay = Heads(t, 0, 1);
      for (float& w : decay.values) w = static_cast<float>(-std::exp(static_cast<double>(w)));
      return Add(at + "ssm_a", decay);
    }
    if (is("linear_attn.dt_bias")) return Add(at + "ssm_dt.bias", Heads(t, 0, 1));
    if (is("linear_attn.norm.weight")) return Add(at + "ssm_norm.weight", t);
    if (is("linear_attn.out_proj.weight"))
      return Add(at + "ssm_out.weight", Transposed(Heads(Transposed(t), 0, kValueDim)));
    if (is("mlp.gate.weight")) return Add(at + "ffn_gate_inp.weight", t);
    if (is("mlp.experts.gate_up_proj")) {
      Add(at + "ffn_gate_exps.weight", RowsOfEach(t, 0, kWidth));
      return Add(at + "ffn_up_exps.weight", RowsOfEach(t, kWidth, 2 * kWidth));
    }
    if (is("mlp.experts.down_proj")) return Add(at + "ffn_down_exps.weight", t);
    if (is("mlp.shared_expert_gate.weight")) {
      ValueTensor flat = t;
      flat.shape = {t.shape[1]};
      return Add(at + "ffn_gate_inp_shexp.weight", flat);
    }
    for (const auto& [ours, theirs] :
         {std::pair<const char*, const char*>{"self_attn.q_proj", "attn_q"},
          {"self_attn.k_proj", "attn_k"},
          {"self_attn.v_proj", "attn_v"},
          {"self_attn.o_proj", "attn_output"},
          {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
          {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
          {"mlp.shared_expert.down_proj", "ffn_down_shexp"}}) {
      if (rest == fmt::format("{}.weight", ours))
        return Add(fmt::format("{}{}.weight", at, theirs), t);
    }
    ADD_FAILURE() << "no rule for " << t.name;
  }

  void Add(std::string name, const ValueTensor& t) { out_.push_back(Named(std::move(name), t)); }
  static ValueTensor PlusOne(ValueTensor t) {
    for (float& w : t.values) w += 1.0f;
    return t;
  }
  ValueTensor Heads(const ValueTensor& t, int64_t first_row, int64_t rows) const {
    return tiled_ ? Tiled(t, first_row, rows) : t;
  }
  // Per key head q | k | v | z, to q | k | v of all and z of all.
  void SplitByKind(const std::string& at, const ValueTensor& t) {
    ValueTensor qkv{"", t.dtype, {2 * kKeys + kValues, kHidden}, {}},
        z{"", t.dtype, {kValues, kHidden}, {}};
    constexpr int64_t kStarts[] = {0, kKeyDim, 2 * kKeyDim, 2 * kKeyDim + kRatio * kValueDim,
                                   2 * kKeyDim + 2 * kRatio * kValueDim};
    for (int part = 0; part < 4; ++part) {
      for (int64_t g = 0; g < kKeyHeads; ++g) {
        std::vector<float>& to = part == 3 ? z.values : qkv.values;
        const auto group = t.values.begin() + g * kStarts[4] * kHidden;
        to.insert(to.end(), group + kStarts[part] * kHidden, group + kStarts[part + 1] * kHidden);
      }
    }
    Add(at + "attn_qkv.weight", qkv);
    Add(at + "attn_gate.weight", z);
  }

  bool tiled_;
  std::vector<ValueTensor> out_;
};

// All tensors of the model as Hugging Face files have them, with values that are all different.
std::vector<ValueTensor> AllTensors(bool next) {
  std::vector<ValueTensor> all;
  const auto add = [&](const std::string& name, Shape shape) {
    all.push_back(Numbered(name, std::move(shape)));
    for (float& w : all.back().values) w = (w + static_cast<float>(31 * all.size())) / 512;
  };
  const auto layer = [&](const std::string& at, bool full) {
    add(at + "input_layernorm.weight", {kHidden});
    add(at + "post_attention_layernorm.weight", {kHidden});
    if (full) {
      add(at + "self_attn.q_proj.weight", {2 * kHeads * kHeadDim, kHidden});
      add(at + "self_attn.k_proj.weight", {kHeadDim, kHidden});
      add(at + "self_attn.v_proj.weight", {kHeadDim, kHidden});
      add(at + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim});
      add(at + "self_attn.q_norm.weight", {kHeadDim});
      add(at + "self_attn.k_norm.weight", {kHeadDim});
    } else {
      const std::string linear = at + "linear_attn.";
      if (next) {
        add(linear + "in_proj_qkvz.weight", {2 * (kKeys + kValues), kHidden});
        add(linear + "in_proj_ba.weight", {2 * kValueHeads, kHidden});
      } else {
        add(linear + "in_proj_qkv.weight", {2 * kKeys + kValues, kHidden});
        add(linear + "in_proj_z.weight", {kValues, kHidden});
        add(linear + "in_proj_b.weight", {kValueHeads, kHidden});
        add(linear + "in_proj_a.weight", {kValueHeads, kHidden});
      }
      add(linear + "conv1d.weight", {2 * kKeys + kValues, 1, kTaps});
      add(linear + "A_log", {kValueHeads});
      add(linear + "dt_bias", {kValueHeads});
      add(linear + "norm.weight", {kValueDim});
      add(linear + "out_proj.weight", {kHidden, kValues});
    }
    add(at + "mlp.gate.weight", {kExperts, kHidden});
    add(at + "mlp.experts.gate_up_proj", {kExperts, 2 * kWidth, kHidden});
    add(at + "mlp.experts.down_proj", {kExperts, kHidden, kWidth});
    add(at + "mlp.shared_expert.gate_proj.weight", {kShared, kHidden});
    add(at + "mlp.shared_expert.up_proj.weight", {kShared, kHidden});
    add(at + "mlp.shared_expert.down_proj.weight", {kHidden, kShared});
    add(at + "mlp.shared_expert_gate.weight", {1, kHidden});
  };
  add("model.embed_tokens.weight", {kVocab, kHidden});
  add("lm_head.weight", {kVocab, kHidden});
  add("model.norm.weight", {kHidden});
  layer("model.layers.0.", false);
  layer("model.layers.1.", true);
  add("mtp.fc.weight", {kHidden, 2 * kHidden});
  add("mtp.norm.weight", {kHidden});
  add("mtp.pre_fc_norm_embedding.weight", {kHidden});
  add("mtp.pre_fc_norm_hidden.weight", {kHidden});
  layer("mtp.layers.0.", true);
  return all;
}

io::GgufWriter Metadata(const std::string& architecture) {
  io::GgufWriter w;
  w.String("general.architecture", architecture);
  const auto u32 = [&](const char* key, int64_t n) {
    w.U32(architecture + "." + key, static_cast<uint32_t>(n));
  };
  u32("block_count", 3);
  u32("nextn_predict_layers", 1);
  u32("full_attention_interval", 2);
  u32("context_length", 64);
  u32("embedding_length", kHidden);
  u32("attention.head_count", kHeads);
  u32("attention.head_count_kv", 1);
  u32("attention.key_length", kHeadDim);
  u32("rope.dimension_count", 2);
  u32("vocab_size", kVocab);
  u32("ssm.group_count", kKeyHeads);
  u32("ssm.time_step_rank", kValueHeads);
  u32("ssm.state_size", kKeyDim);
  u32("ssm.inner_size", kValues);
  u32("ssm.conv_kernel", kTaps);
  u32("expert_count", kExperts);
  u32("expert_used_count", 2);
  u32("expert_feed_forward_length", kWidth);
  u32("expert_shared_feed_forward_length", kShared);
  w.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f)
      .F32(architecture + ".rope.freq_base", 10000.0f);
  return w;
}

// A graph that reads these params.
graph::Graph Reading(const ParamShapes& params) {
  graph::Graph g;
  for (const auto& [name, shape] : params) {
    graph::Value v;
    v.name = name;
    v.kind = graph::ValueKind::kParam;
    g.values.push_back(std::move(v));
  }
  return g;
}

TEST(FindHybridWeight, BothFormatsOfAModelHaveTheSameValuesUnderEachName) {
  for (const bool next : {false, true}) {
    const std::vector<ValueTensor> tensors = AllTensors(next);
    const auto hf = OpenValues(Config(next ? kNext : kMoe35), tensors);
    const auto gguf = OpenValuesGguf(Metadata(next ? "qwen3next" : "qwen35moe"),
                                     Converter(!next).Convert(tensors));
    ASSERT_NE(gguf.file, nullptr);
    EXPECT_TRUE(HasDraftHead(*hf));
    EXPECT_TRUE(HasDraftHead(*gguf));
    const ParamShapes params = ParamsOfConfig((*hf).config(), true);
    EXPECT_EQ(params, ParamsOfConfig((*gguf).config(), true));
    for (const auto& [name, shape] : params) {
      const WeightSource ours = Found(hf, name), theirs = Found(gguf, name);
      EXPECT_EQ(ours.shape, shape) << name;
      EXPECT_EQ(theirs.shape, shape) << name;
      EXPECT_EQ(ours.Values(), theirs.Values()) << name;
    }
    const graph::Graph g = Reading(params);
    const graph::Graph* read[] = {&g};
    for (const SparseCheckpoint* w : {&hf, &gguf}) EXPECT_EQ(CheckAllUsed(**w, read).message(), "");
  }
}

TEST(FindHybridWeight, GgufMayFuseGateAndUpOfExperts) {
  const auto w =
      OpenValuesGguf(Metadata("qwen35moe"),
                     {Numbered("blk.0.ffn_gate_up_exps.weight", {kExperts, 2 * kWidth, kHidden})});
  EXPECT_EQ(RowsOf(Found(w, "model.layers.0.mlp.experts.up_proj.weight")),
            (Rows{5, 6, 7, 8, 9, 15, 16, 17, 18, 19, 25, 26, 27, 28, 29}));
  EXPECT_EQ(FindWeight(*w, "model.layers.1.mlp.experts.up_proj.weight").status().message(),
            (*w).path() + ": tensor 'blk.1.ffn_up_exps.weight' is missing");
}

// Two key heads of two value heads of `dim`, and ssm_out in blocks.
Status OutProjectionOf(DType dtype, int64_t dim, std::vector<float>* first_row = nullptr) {
  const int64_t values = 4 * dim;
  ValueTensor out{"blk.0.ssm_out.weight", dtype, {2, values}, {}};
  for (int64_t i = 0; i < 2 * values; ++i)
    out.values.push_back(static_cast<float>(i % values / dim + 1));
  io::GgufWriter w;
  w.String("general.architecture", "qwen35");
  for (const auto& [key, n] : {std::pair<const char*, uint32_t>{"block_count", 1},
                               {"context_length", 64},
                               {"embedding_length", 2},
                               {"feed_forward_length", 4},
                               {"attention.head_count", 1},
                               {"attention.key_length", 4},
                               {"vocab_size", 7},
                               {"ssm.group_count", 2},
                               {"ssm.time_step_rank", 4},
                               {"ssm.state_size", 4},
                               {"ssm.conv_kernel", 4},
                               {"ssm.inner_size", static_cast<uint32_t>(values)}}) {
    w.U32(fmt::format("qwen35.{}", key), n);
  }
  w.F32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
  const auto checkpoint = OpenValuesGguf(w, {out});
  const auto source = FindWeight(*checkpoint, "model.layers.0.linear_attn.out_proj.weight");
  if (source.ok() && first_row != nullptr) {
    for (int64_t head = 0; head < 4; ++head)
      first_row->push_back(
          std::round(source.value().Values()[static_cast<size_t>(head * dim + dim / 2)]));
  }
  return source.status();
}

TEST(FindHybridWeight, ColumnsAreGatheredWhereHeadsAreWholeBlocks) {
  for (const DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ4_1}) {
    std::vector<float> heads;
    EXPECT_EQ(OutProjectionOf(dtype, 32, &heads).message(), "");
    EXPECT_EQ(heads, (std::vector<float>{1, 3, 2, 4})) << NameOf(dtype);
  }
  std::vector<float> heads;
  EXPECT_TRUE(OutProjectionOf(DType::kQ6_K, 256, &heads).ok());
  EXPECT_EQ(heads, (std::vector<float>{1, 3, 2, 4}));
  // Blocks that reach over heads stay where they are, and so do the heads.
  heads.clear();
  EXPECT_TRUE(OutProjectionOf(DType::kQ6_K, 128, &heads).ok());
  EXPECT_EQ(heads, (std::vector<float>{1, 2, 3, 4}));
}

// ---- The tiny checkpoints -----------------------------------------------------------------------

TEST(FindHybridWeight, TheTinyCheckpointsHaveEveryParamAndNothingElse) {
  std::set<std::string> families;
  for (const std::string& folder : support::TinyFolders()) {
    auto opened = io::Checkpoint::Open(folder);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const io::Checkpoint& checkpoint = **opened;
    const io::ModelConfig& config = checkpoint.config();
    if (config.experts == 0 && config.layer_kinds.empty()) continue;
    families.insert(config.family);
    const ParamShapes params = ParamsOfConfig(config, HasDraftHead(checkpoint));
    for (const auto& [name, shape] : params) {
      const auto source = FindWeight(checkpoint, name);
      ASSERT_TRUE(source.ok()) << source.status().message();
      EXPECT_EQ(source.value().shape, shape) << folder << " " << name;
      for (const float w : source.value().Values()) ASSERT_TRUE(std::isfinite(w)) << name;
    }
    const graph::Graph g = Reading(params);
    const graph::Graph* read[] = {&g};
    std::vector<std::string> notes;
    EXPECT_EQ(CheckAllUsed(checkpoint, read, &notes).message(), "");
    EXPECT_EQ(notes.size(), config.vision ? 1u : 0u);
  }
  EXPECT_EQ(families, (std::set<std::string>{"qwen3_5", "qwen3_moe", "qwen3_next"}));
}

// ---- What may stay unread -----------------------------------------------------------------------

TEST(CheckAllUsed, TakesAnUnreadDraftHeadOrImageEncoderWithANote) {
  std::vector<ValueTensor> tensors = AllTensors(false);
  const size_t draft = 4 + 6 + 2 + 7;  // its own, attention, norms, experts
  tensors.push_back(Numbered("model.visual.blocks.0.attn.qkv.weight", {4, 4}));
  const std::string text = Config(kMoe35);
  const std::string multimodal = fmt::format(
      R"({{"architectures": ["Qwen3_5MoeForConditionalGeneration"], "vision_config": {{}}, "text_config": {}}})",
      text);
  const auto hf = OpenValues(multimodal, tensors);
  graph::Graph g = Reading(ParamsOfConfig((*hf).config(), false));
  const graph::Graph* read[] = {&g};
  std::vector<std::string> notes;
  EXPECT_EQ(CheckAllUsed(*hf, read, &notes).message(), "");
  const std::string at = hf.folder->path();
  EXPECT_EQ(notes,
            (std::vector<std::string>{
                at + ": 1 tensors of an image encoder are not read",
                fmt::format("{}: {} tensors of a draft head (mtp) are not read", at, draft)}));

  // A text model has no image encoder, and one of which a part is read has no part that is not.
  const auto alone = OpenValues(text, tensors);
  EXPECT_NE(
      CheckAllUsed(*alone, read)
          .message()
          .find("'model.visual.blocks.0.attn.qkv.weight' [4, 4] is no part of a qwen3_5 model"),
      std::string::npos);
  g = Reading({{"mtp.fc.weight", {}}});
  EXPECT_FALSE(CheckAllUsed(*hf, read).ok());
  ParamShapes half = ParamsOfConfig((*hf).config(), false);
  half["mtp.fc.weight"] = {};
  g = Reading(half);
  EXPECT_NE(CheckAllUsed(*hf, read).message().find("'mtp."), std::string::npos);

  tensors.pop_back();
  const auto gguf = OpenValuesGguf(Metadata("qwen35moe"), Converter(true).Convert(tensors));
  g = Reading(ParamsOfConfig((*gguf).config(), false));
  notes.clear();
  EXPECT_EQ(CheckAllUsed(*gguf, read, &notes).message(), "");
  EXPECT_EQ(notes,
            (std::vector<std::string>{fmt::format(
                "{}: {} tensors of a draft head (mtp) are not read", (*gguf).path(), draft + 1)}))
      << "gate and up are apart";
  EXPECT_FALSE(HasDraftHead(*With(kMoe35, Numbered("model.norm.weight", {kHidden}))));
}

}  // namespace
}  // namespace weft::models
