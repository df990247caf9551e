#include "models/blocks/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "models/blocks/tables.h"

namespace weft::models {

using graph::Dim;
using graph::kNoValue;
using graph::ValueId;

Result<ValueId> BuildAttention(graph::Builder& b, ParamSource& params,
                               const io::ModelConfig& config, const ModelOptions& options,
                               const LayerSite& site, bool qk_norm, ValueId x,
                               const AttentionInputs& inputs) {
  const std::string prefix = site.prefix + "self_attn.";
  const std::string& label = site.label;
  b.Layer(label + ".attn");
  const int64_t head_dim = config.head_dim, group = config.heads / config.kv_heads;
  const int64_t q_width = config.heads * head_dim, kv_width = config.kv_heads * head_dim;

  WEFT_ASSIGN_OR_RETURN(const DType o_format, params.FormatOf(prefix + "o_proj.weight"));
  const int64_t block = QuantBlockOf(o_format, options.int8_activations);
  const int heads = b.Table(label + ".heads", LeafTable::Make(q_width, HeadAtom(head_dim, block)));
  const int kv_heads =
      b.FollowingTable(label + ".kv_heads", kv_width, head_dim, heads, group * head_dim);

  std::vector<ValueId> weights, biases;
  struct Section {
    const char* name;
    Dim n;
  };
  std::vector<Section> sections{{"q_proj", Dim::C(q_width, heads)},
                                {"k_proj", Dim::C(kv_width, kv_heads)},
                                {"v_proj", Dim::C(kv_width, kv_heads)}};
  if (config.attn_output_gate) sections.push_back({"q_gate", Dim::C(q_width, heads)});
  for (const Section& s : sections) {
    WEFT_ASSIGN_OR_RETURN(const ValueId w, params.Matrix(prefix + s.name + ".weight", s.n,
                                                         Dim::C(config.hidden_size)));
    weights.push_back(w);
    biases.push_back(kNoValue);
    if (config.attention_bias && std::string_view(s.name) != "q_gate") {
      WEFT_ASSIGN_OR_RETURN(biases.back(), params.Vector(prefix + s.name + ".bias", s.n));
    }
  }
  const std::vector<ValueId> qkv = b.ColumnLinear(x, weights, biases, {"q", "k", "v", "gate"});
  ValueId q = qkv[0], k = qkv[1];
  if (qk_norm) {
    WEFT_ASSIGN_OR_RETURN(const ValueId q_gain,
                          params.Vector(prefix + "q_norm.weight", Dim::C(head_dim)));
    WEFT_ASSIGN_OR_RETURN(const ValueId k_gain,
                          params.Vector(prefix + "k_norm.weight", Dim::C(head_dim)));
    q = b.RmsNorm(q, q_gain, config.rms_norm_eps, config.heads, head_dim, "q_norm");
    k = b.RmsNorm(k, k_gain, config.rms_norm_eps, config.kv_heads, head_dim, "k_norm");
  }
  q = b.Rope(q, inputs.positions, head_dim, config.rope.dims, "q_rope");
  k = b.Rope(k, inputs.positions, head_dim, config.rope.dims, "k_rope");

  const ValueId kv =
      b.State(fmt::format("kv.{}", site.number), {Dim::C(2), Dim::C(kv_width, kv_heads)});
  auto [attended, written] =
      b.SelfAttention({.q = q,
                       .k = k,
                       .v = qkv[2],
                       .kv = kv,
                       .slots = inputs.slots,
                       .segments = inputs.segments,
                       .head_dim = head_dim,
                       .group = group,
                       .scale = 1.0 / std::sqrt(static_cast<double>(head_dim))});
  (void)written;
  if (config.attn_output_gate) attended = b.SigmoidMul(attended, qkv[3], "gated");

  WEFT_ASSIGN_OR_RETURN(
      const ValueId o,
      params.Matrix(prefix + "o_proj.weight", Dim::C(config.hidden_size), Dim::C(q_width, heads)));
  ValueId o_bias = kNoValue;
  if (config.attention_output_bias) {
    WEFT_ASSIGN_OR_RETURN(o_bias,
                          params.Vector(prefix + "o_proj.bias", Dim::C(config.hidden_size)));
  }
  return b.RowLinear(attended, o, o_bias, "o_proj");
}

}  // namespace weft::models
