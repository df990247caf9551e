// The pre-norm decoder that all families share: which mixer and which feed-forward a layer has is told by the
// config, a model file says what else differs.
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
