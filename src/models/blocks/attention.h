// Grouped-query self-attention with rotary embedding; q/k norms and biases where the model has
// them.
//   q, k, v = x Wq, x Wk, x Wv;  [q, k = norm per head];  rope;  a = softmax(q k^T * scale) v;
//   [a = a * sigmoid(x Wgate)];  a Wo
// Source: Vaswani et al. 2017, Ainslie et al. 2023 (GQA), Qiu et al. 2025 (output gate); Hugging
// Face llama, qwen2, qwen3, qwen3_next.
#pragma once

#include <string>

#include "models/blocks/source.h"

namespace weft::models {

struct AttentionInputs {
  graph::ValueId positions, slots, segments;
};

// x: [T, H] -> [T, H]. Makes the layer's kv state.
Result<graph::ValueId> BuildAttention(graph::Builder& b, ParamSource& params,
                                      const io::ModelConfig& config, const ModelOptions& options,
                                      const LayerSite& site, bool qk_norm, graph::ValueId x,
                                      const AttentionInputs& inputs);

}  // namespace weft::models
