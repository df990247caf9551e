// The dense pre-norm decoder that llama, qwen2 and qwen3 share; a model file says what differs.
#pragma once

#include "models/model.h"

namespace weft::models {

struct DecoderTraits {
  bool qk_norm = false;  // a norm per head on q and k before rope
};

Result<graph::Graph> BuildDecoderBody(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const DecoderTraits& traits);
Result<graph::Graph> BuildDecoderHead(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const HeadOptions& head);

}  // namespace weft::models
