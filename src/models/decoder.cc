#include "models/decoder.h"

#include <fmt/format.h>

#include "models/blocks/attention.h"
#include "models/blocks/gated_delta_net.h"
#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/blocks/tables.h"

namespace weft::models {

using graph::Dim;
using graph::ValueId;

namespace {

LeafTable VocabLeaves(const io::ModelConfig& config) { return LeafTable::Make(config.vocab_size, 32); }

}  // namespace

Result<graph::Graph> BuildDecoderBody(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const DecoderTraits& traits) {
  const io::ModelConfig& config = checkpoint.config();
  graph::Builder b(config.family + ".body", options.model_dtype);
  ParamSource params(&b, &checkpoint);
  const ValueId ids = b.Input("ids", DType::kI32, {Dim::T()});
  const AttentionInputs inputs{b.Input("positions", DType::kI32, {Dim::T()}),
                               b.Input("slots", DType::kI64, {Dim::T()}),
                               b.Input("segments", DType::kI32, {})};
  const int vocab = b.Table("vocab", VocabLeaves(config));
  WEFT_ASSIGN_OR_RETURN(const ValueId table, params.Matrix("model.embed_tokens.weight", Dim::C(config.vocab_size, vocab),
                                                           Dim::C(config.hidden_size)));
  b.Layer("embed");
  ValueId residual = b.Embedding(ids, table);
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const std::string label = fmt::format("L{:02}", layer);
    const auto norm = [&](const char* name, const char* out) -> Result<ValueId> {
      b.Layer(label);
      WEFT_ASSIGN_OR_RETURN(const ValueId gain, params.Vector(prefix + name + ".weight", Dim::C(config.hidden_size)));
      return b.RmsNorm(residual, gain, config.rms_norm_eps, 1, kNormLeafAtom, out);
    };
    WEFT_ASSIGN_OR_RETURN(const ValueId attn_in, norm("input_layernorm", "attn_norm"));
    ValueId attn;
    if (config.KindOf(layer) == io::LayerKind::kLinearAttention) {
      WEFT_ASSIGN_OR_RETURN(attn, BuildGatedDeltaNet(b, params, config, options, layer, attn_in, inputs.segments));
    } else {
      WEFT_ASSIGN_OR_RETURN(attn, BuildAttention(b, params, config, options, layer, traits.qk_norm, attn_in, inputs));
    }
    b.Layer(label);
    residual = b.Add(residual, attn, "attn_residual");
    WEFT_ASSIGN_OR_RETURN(const ValueId mlp_in, norm("post_attention_layernorm", "mlp_norm"));
    ValueId mlp;
    if (config.IsMoe(layer)) {
      WEFT_ASSIGN_OR_RETURN(mlp, BuildMoe(b, params, config, options, layer, mlp_in));
    } else {
      const MlpPart part{prefix + "mlp.", label + ".mlp", label + ".ffn", config.intermediate_size};
      WEFT_ASSIGN_OR_RETURN(mlp, BuildMlp(b, params, config, options, part, mlp_in));
    }
    b.Layer(label);
    residual = b.Add(residual, mlp, "mlp_residual");
  }
  return b.Finish({residual});
}

Result<graph::Graph> BuildDecoderHead(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const HeadOptions& head) {
  const io::ModelConfig& config = checkpoint.config();
  graph::Builder b(config.family + (head.sample ? ".head.sample" : ".head.greedy"), options.model_dtype);
  ParamSource params(&b, &checkpoint);
  const ValueId hidden = b.Input("hidden", options.model_dtype, {Dim::T(), Dim::C(config.hidden_size)});
  const ValueId rows = b.Input("head_rows", DType::kI32, {Dim::HeadRows()});
  const int vocab = b.Table("vocab", VocabLeaves(config));
  b.Layer("head");
  const ValueId picked = b.GatherRows(hidden, rows);
  WEFT_ASSIGN_OR_RETURN(const ValueId gain, params.Vector("model.norm.weight", Dim::C(config.hidden_size)));
  const ValueId normed = b.RmsNorm(picked, gain, config.rms_norm_eps, 1, kNormLeafAtom, "norm");
  const char* name = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  WEFT_ASSIGN_OR_RETURN(const ValueId lm_head, params.Matrix(name, Dim::C(config.vocab_size, vocab), Dim::C(config.hidden_size)));
  const ValueId logits = b.LmHead(normed, lm_head);
  std::vector<ValueId> outputs{head.sample ? b.Sample(logits) : b.Argmax(logits)};
  if (head.hash_logits) outputs.push_back(b.HashLogits(logits));
  return b.Finish(outputs);
}

}  // namespace weft::models
