#include "models/blocks/moe.h"

#include <fmt/format.h>

#include "models/blocks/mlp.h"

namespace weft::models {

using graph::Dim;
using graph::kNoValue;
using graph::ValueId;

Result<ValueId> BuildMoe(graph::Builder& b, ParamSource& params, const io::ModelConfig& config,
                         const ModelOptions& options, const LayerSite& site, ValueId x) {
  const std::string prefix = site.prefix + "mlp.";
  const std::string& label = site.label;
  b.Layer(label + ".moe");
  const bool shared = config.shared_expert_intermediate_size > 0;
  const Dim hidden = Dim::C(config.hidden_size);

  // The router's logits are never rounded; the shared expert's gate stands beside them.
  std::vector<ValueId> scorers;
  WEFT_ASSIGN_OR_RETURN(scorers.emplace_back(),
                        params.Matrix(prefix + "gate.weight", Dim::C(config.experts), hidden));
  if (shared) {
    WEFT_ASSIGN_OR_RETURN(scorers.emplace_back(),
                          params.Matrix(prefix + "shared_expert_gate.weight", Dim::C(1), hidden));
  }
  const std::vector<ValueId> scores =
      b.ColumnLinear(x, scorers, std::vector<ValueId>(scorers.size(), kNoValue),
                     {"router", "shared_gate"}, DType::kF32);

  // An expert stays whole on a rank, so nothing cuts what it sums over its width.
  const Dim experts =
      Dim::C(config.experts, b.Table(label + ".experts", LeafTable::Make(config.experts, 1)));
  const Dim ffn = Dim::C(config.moe_intermediate_size);
  graph::Builder::ExpertArgs args;
  args.x = x;
  args.logits = scores[0];
  WEFT_ASSIGN_OR_RETURN(args.gate,
                        params.Experts(prefix + "experts.gate_proj.weight", experts, ffn, hidden));
  WEFT_ASSIGN_OR_RETURN(args.up,
                        params.Experts(prefix + "experts.up_proj.weight", experts, ffn, hidden));
  WEFT_ASSIGN_OR_RETURN(args.down,
                        params.Experts(prefix + "experts.down_proj.weight", experts, hidden, ffn));
  args.top_k = config.experts_per_token;
  args.renormalise = config.norm_topk_prob;
  const ValueId routed = b.Experts(args);
  if (!shared) return routed;

  const MlpPart part{prefix + "shared_expert.", label + ".shared", label + ".shared_ffn",
                     config.shared_expert_intermediate_size, options.whole_shared_expert};
  WEFT_ASSIGN_OR_RETURN(const ValueId mlp, BuildMlp(b, params, config, options, part, x));
  b.Layer(label + ".shared");
  const ValueId gated = b.GateRows(mlp, scores[1], "gated");
  return b.Add(routed, gated, "experts_and_shared");
}

}  // namespace weft::models
