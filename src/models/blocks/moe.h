// Mixture of experts: each token goes through the k experts that its router scores best, and
// through a shared one where the model has it.
//   y = sum_k w_k down_k(silu(gate_k x) * up_k x) [+ sigmoid(x w_g) * mlp_shared(x)]
// Source: Shazeer et al. 2017, Dai et al. 2024 (shared experts); Hugging Face qwen3_moe,
// qwen3_next.
#pragma once

#include "models/blocks/source.h"

namespace weft::models {

// x: [T, H] -> [T, H].
Result<graph::ValueId> BuildMoe(graph::Builder& b, ParamSource& params,
                                const io::ModelConfig& config, const ModelOptions& options,
                                const LayerSite& site, graph::ValueId x);

}  // namespace weft::models
