// The gated feed-forward block: down(silu(gate(x)) * up(x)). Source: Shazeer 2020 (SwiGLU).
#pragma once

#include "models/blocks/source.h"

namespace weft::models {

// x: [T, H] -> [T, H].
Result<graph::ValueId> BuildMlp(graph::Builder& b, ParamSource& params, const io::ModelConfig& config,
                                const ModelOptions& options, int layer, graph::ValueId x);

}  // namespace weft::models
