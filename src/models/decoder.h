// The pre-norm decoder that all families share: which mixer and which feed-forward a layer has is
// told by the config, a model file says what else differs.
#pragma once

#include "models/model.h"

namespace weft::models {

struct DecoderTraits {
  bool qk_norm = false;  // a norm per head on q and k before rope
};

Result<graph::Graph> BuildDecoderBody(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const DecoderTraits& traits);
// The multi-token-prediction layer: fc(norm(embedding of the next token) ++ norm(hidden)), one
// layer of attention, a norm; the model's embedding and lm_head are its own. Source: DeepSeek-AI
// 2024 (V3, 2.2); Hugging Face checkpoints of qwen3_next and qwen3_5. Errors: kUnsupported unless
// the checkpoint has one such layer.
Result<graph::Graph> BuildDecoderDraft(const io::Checkpoint& checkpoint,
                                       const ModelOptions& options, const DecoderTraits& traits,
                                       DraftInput from);
Result<graph::Graph> BuildDecoderHead(const io::Checkpoint& checkpoint, const ModelOptions& options,
                                      const HeadOptions& head);

}  // namespace weft::models
