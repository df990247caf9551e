// The gated feed-forward block: down(silu(gate(x)) * up(x)). Source: Shazeer 2020 (SwiGLU).
#pragma once

#include "models/blocks/source.h"

namespace weft::models {

// One such block of a layer: which tensors, what its values and its leaf table are called, how
// wide.
struct MlpPart {
  std::string prefix;  // "model.layers.3.mlp."
  std::string layer;   // "L03.mlp"
  std::string table;   // "L03.ffn"
  int64_t width = 0;
  bool whole = false;  // the width is never cut
};

// x: [T, H] -> [T, H].
Result<graph::ValueId> BuildMlp(graph::Builder& b, ParamSource& params,
                                const io::ModelConfig& config, const ModelOptions& options,
                                const MlpPart& part, graph::ValueId x);

}  // namespace weft::models
