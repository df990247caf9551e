#include "models/blocks/gated_delta_net.h"

#include <fmt/format.h>

#include <array>

#include "models/blocks/tables.h"

namespace weft::models {

using graph::Dim;
using graph::kNoValue;
using graph::ValueId;

Result<ValueId> BuildGatedDeltaNet(graph::Builder& b, ParamSource& params,
                                   const io::ModelConfig& config, const ModelOptions& options,
                                   const LayerSite& site, ValueId x, ValueId segments) {
  const std::string prefix = site.prefix + "linear_attn.";
  const std::string& label = site.label;
  b.Layer(label + ".gdn");
  const io::LinearAttentionConfig& linear = config.linear;
  const int64_t ratio = linear.value_heads / linear.key_heads;

  // Nothing is reduced over key heads: a rank has those that its value heads read.
  WEFT_ASSIGN_OR_RETURN(const DType out_format, params.FormatOf(prefix + "out_proj.weight"));
  const int64_t block = QuantBlockOf(out_format, options.int8_activations);
  const int values =
      b.Table(label + ".value_heads",
              LeafTable::Make(linear.value_width(), HeadAtom(linear.value_dim, block)));
  // Tiled value heads have keys all over, so that every rank has all of these.
  const bool tiled = HasTiledHeads(params.checkpoint(), site.prefix);
  const int keys = tiled ? -1
                         : b.FollowingTable(label + ".key_heads", linear.key_width(),
                                            linear.key_dim, values, ratio * linear.value_dim);
  const Dim key_dim = tiled ? Dim::C(linear.key_width()) : Dim::C(linear.key_width(), keys),
            value_dim = Dim::C(linear.value_width(), values);
  const Dim heads = Dim::C(linear.value_heads);

  std::vector<ValueId> weights;
  struct Section {
    const char* name;
    Dim n;
  };
  for (const Section& s : {Section{"q", key_dim}, Section{"k", key_dim}, Section{"v", value_dim},
                           Section{"z", value_dim}, Section{"b", heads}, Section{"a", heads}}) {
    WEFT_ASSIGN_OR_RETURN(
        weights.emplace_back(),
        params.Matrix(prefix + "in_proj_" + s.name + ".weight", s.n, Dim::C(config.hidden_size)));
  }
  const std::vector<ValueId> in = b.ColumnLinear(
      x, weights, std::vector<ValueId>(weights.size(), kNoValue), {"q", "k", "v", "z", "b", "a"});

  std::array<ValueId, 3> mixed;
  for (size_t i = 0; i < 3; ++i) {
    const char* name = std::array{"q", "k", "v"}[i];
    const Dim channels = i < 2 ? key_dim : value_dim;
    WEFT_ASSIGN_OR_RETURN(const ValueId w,
                          params.Filter(fmt::format("{}conv1d_{}.weight", prefix, name), channels,
                                        linear.conv_kernel));
    const ValueId window = b.State(fmt::format("conv.{}.{}", site.number, name),
                                   {Dim::C(linear.conv_kernel - 1), channels});
    mixed[i] = b.CausalConv(window, in[i], w, segments, fmt::format("conv_{}", name));
  }

  graph::Builder::DeltaArgs args;
  args.q = mixed[0];
  args.k = mixed[1];
  args.v = mixed[2];
  args.b = in[4];
  args.a = in[5];
  args.segments = segments;
  args.key_dim = linear.key_dim;
  args.value_dim = linear.value_dim;
  args.tiled = tiled;
  args.state =
      b.State(fmt::format("gdn.{}", site.number), {Dim::C(linear.key_dim), value_dim}, DType::kF32);
  WEFT_ASSIGN_OR_RETURN(args.neg_exp_a, params.Vector(prefix + "A_log", heads));
  WEFT_ASSIGN_OR_RETURN(args.dt_bias, params.Vector(prefix + "dt_bias", heads));
  const ValueId o = b.GatedDelta(args);
  WEFT_ASSIGN_OR_RETURN(const ValueId gain,
                        params.Vector(prefix + "norm.weight", Dim::C(linear.value_dim)));
  const ValueId y =
      b.GatedRmsNorm(o, in[3], gain, config.rms_norm_eps, linear.value_heads, kNormLeafAtom,
                     linear.output_gate == io::GateActivation::kSigmoid, "gated_norm");
  WEFT_ASSIGN_OR_RETURN(const ValueId out, params.Matrix(prefix + "out_proj.weight",
                                                         Dim::C(config.hidden_size), value_dim));
  return b.RowLinear(y, out, kNoValue, "out_proj");
}

}  // namespace weft::models
