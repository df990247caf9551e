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

LeafTable VocabLeaves(const io::ModelConfig& config) {
  return LeafTable::Make(config.vocab_size, 32);
}

// What the graphs of body and draft head have in common.
struct Decoder {
  Decoder(const io::Checkpoint& checkpoint, const ModelOptions& model_options,
          const DecoderTraits& model_traits, std::string name)
      : config(checkpoint.config()),
        options(model_options),
        traits(model_traits),
        b(std::move(name), options.model_dtype),
        params(&b, &checkpoint),
        ids(b.Input("ids", DType::kI32, {Dim::T()})),
        inputs{b.Input("positions", DType::kI32, {Dim::T()}),
               b.Input("slots", DType::kI64, {Dim::T()}), b.Input("segments", DType::kI32, {})} {}

  Result<ValueId> Embed() {
    const int vocab = b.Table("vocab", VocabLeaves(config));
    WEFT_ASSIGN_OR_RETURN(const ValueId table, params.Matrix("model.embed_tokens.weight",
                                                             Dim::C(config.vocab_size, vocab),
                                                             Dim::C(config.hidden_size)));
    b.Layer("embed");
    return b.Embedding(ids, table);
  }

  Result<ValueId> Norm(const std::string& gain, ValueId x, const char* out) {
    WEFT_ASSIGN_OR_RETURN(const ValueId w, params.Vector(gain, Dim::C(config.hidden_size)));
    return b.RmsNorm(x, w, config.rms_norm_eps, 1, kNormLeafAtom, out);
  }

  // The residual behind a layer.
  Result<ValueId> Layer(const LayerSite& site, io::LayerKind kind, bool experts, ValueId residual) {
    b.Layer(site.label);
    WEFT_ASSIGN_OR_RETURN(const ValueId attn_in,
                          Norm(site.prefix + "input_layernorm.weight", residual, "attn_norm"));
    ValueId attn;
    if (kind == io::LayerKind::kLinearAttention) {
      WEFT_ASSIGN_OR_RETURN(
          attn, BuildGatedDeltaNet(b, params, config, options, site, attn_in, inputs.segments));
    } else {
      WEFT_ASSIGN_OR_RETURN(
          attn, BuildAttention(b, params, config, options, site, traits.qk_norm, attn_in, inputs));
    }
    b.Layer(site.label);
    residual = b.Add(residual, attn, "attn_residual");
    WEFT_ASSIGN_OR_RETURN(
        const ValueId mlp_in,
        Norm(site.prefix + "post_attention_layernorm.weight", residual, "mlp_norm"));
    ValueId mlp;
    if (experts) {
      WEFT_ASSIGN_OR_RETURN(mlp, BuildMoe(b, params, config, options, site, mlp_in));
    } else {
      const MlpPart part{site.prefix + "mlp.", site.label + ".mlp", site.label + ".ffn",
                         config.intermediate_size};
      WEFT_ASSIGN_OR_RETURN(mlp, BuildMlp(b, params, config, options, part, mlp_in));
    }
    b.Layer(site.label);
    return b.Add(residual, mlp, "mlp_residual");
  }

  const io::ModelConfig& config;
  const ModelOptions& options;
  const DecoderTraits& traits;
  graph::Builder b;
  ParamSource params;
  const ValueId ids;
  const AttentionInputs inputs;
};

}  // namespace

Result<graph::Graph> BuildDecoderBody(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const DecoderTraits& traits) {
  const io::ModelConfig& config = checkpoint.config();
  Decoder d(checkpoint, options, traits, config.family + ".body");
  WEFT_ASSIGN_OR_RETURN(ValueId residual, d.Embed());
  for (int layer = 0; layer < config.layers; ++layer) {
    WEFT_ASSIGN_OR_RETURN(residual, d.Layer(LayerSite::Of(layer), config.KindOf(layer),
                                            config.IsMoe(layer), residual));
  }
  return d.b.Finish({residual});
}

Result<graph::Graph> BuildDecoderDraft(const io::Checkpoint& checkpoint,
                                       const ModelOptions& options, const DecoderTraits& traits,
                                       DraftInput from) {
  const io::ModelConfig& config = checkpoint.config();
  if (config.mtp_layers != 1) {
    return Status::Unsupported("{}: a draft head of {} layers; weft runs one", config.source,
                               config.mtp_layers);
  }
  Decoder d(checkpoint, options, traits,
            config.family + (from == DraftInput::kBody ? ".draft.first" : ".draft.next"));
  WEFT_ASSIGN_OR_RETURN(const ValueId embedding, d.Embed());
  ValueId hidden = d.b.Input("hidden", options.model_dtype, {Dim::T(), Dim::C(config.hidden_size)});
  d.b.Layer("mtp");
  if (from == DraftInput::kBody) {
    WEFT_ASSIGN_OR_RETURN(hidden, d.Norm("model.norm.weight", hidden, "norm"));
  }
  WEFT_ASSIGN_OR_RETURN(const ValueId token,
                        d.Norm("mtp.pre_fc_norm_embedding.weight", embedding, "token_norm"));
  WEFT_ASSIGN_OR_RETURN(hidden, d.Norm("mtp.pre_fc_norm_hidden.weight", hidden, "hidden_norm"));
  const ValueId both = d.b.Concat(token, hidden, "token_and_hidden");
  WEFT_ASSIGN_OR_RETURN(
      const ValueId fc,
      d.params.Matrix("mtp.fc.weight", Dim::C(config.hidden_size), Dim::C(2 * config.hidden_size)));
  ValueId residual = d.b.ColumnLinear(both, {fc}, {graph::kNoValue}, {"fc"})[0];
  WEFT_ASSIGN_OR_RETURN(residual,
                        d.Layer(LayerSite::Draft(config.layers), io::LayerKind::kFullAttention,
                                config.experts > 0, residual));
  d.b.Layer("mtp");
  WEFT_ASSIGN_OR_RETURN(const ValueId out, d.Norm("mtp.norm.weight", residual, "draft"));
  return d.b.Finish({out});
}

Result<graph::Graph> BuildDecoderHead(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const HeadOptions& head) {
  const io::ModelConfig& config = checkpoint.config();
  const char* name = head.normed ? ".head.draft" : head.sample ? ".head.sample" : ".head.greedy";
  graph::Builder b(config.family + name, options.model_dtype);
  ParamSource params(&b, &checkpoint);
  const ValueId hidden =
      b.Input("hidden", options.model_dtype, {Dim::T(), Dim::C(config.hidden_size)});
  const ValueId rows = b.Input("head_rows", DType::kI32, {Dim::HeadRows()});
  const int vocab = b.Table("vocab", VocabLeaves(config));
  b.Layer("head");
  ValueId normed = b.GatherRows(hidden, rows);
  if (!head.normed) {
    WEFT_ASSIGN_OR_RETURN(const ValueId gain,
                          params.Vector("model.norm.weight", Dim::C(config.hidden_size)));
    normed = b.RmsNorm(normed, gain, config.rms_norm_eps, 1, kNormLeafAtom, "norm");
  }
  const char* vectors = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  WEFT_ASSIGN_OR_RETURN(
      const ValueId lm_head,
      params.Matrix(vectors, Dim::C(config.vocab_size, vocab), Dim::C(config.hidden_size)));
  const ValueId logits = b.LmHead(normed, lm_head);
  std::vector<ValueId> outputs{head.sample ? b.Sample(logits) : b.Argmax(logits)};
  if (head.hash_logits) outputs.push_back(b.HashLogits(logits));
  return b.Finish(outputs);
}

}  // namespace weft::models
