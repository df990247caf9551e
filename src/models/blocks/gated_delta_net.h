// Linear attention by the gated delta rule, with a short convolution before it and a gated norm
// behind.
//   q, k, v = silu(conv(x Wq, x Wk, x Wv));  S = gamma S + k beta (v - gamma S^T k);  o = S^T q;
//   norm(o) * act(x Wz);  Wo
// gamma = exp(-exp(A) softplus(x Wa + dt)), beta = sigmoid(x Wb), q and k of unit length, one state
// a value head. Source: Yang, Kautz, Hatamizadeh 2025; Hugging Face qwen3_next, qwen3_5.
#pragma once

#include "models/blocks/source.h"

namespace weft::models {

// x: [T, H] -> [T, H]. Makes the layer's states.
Result<graph::ValueId> BuildGatedDeltaNet(graph::Builder& b, ParamSource& params,
                                          const io::ModelConfig& config,
                                          const ModelOptions& options, const LayerSite& site,
                                          graph::ValueId x, graph::ValueId segments);

}  // namespace weft::models
