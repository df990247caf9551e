// Qwen3.5 and 3.6, dense and with experts: three of four layers are gated delta nets, the fourth is
// attention with an output gate and a partial rotary embedding. Source: Qwen team 2026.
#include "models/decoder.h"

namespace weft::models {
namespace {

Result<graph::Graph> Body(const io::Checkpoint& checkpoint, const ModelOptions& options) {
  return BuildDecoderBody(checkpoint, options, {.qk_norm = true});
}

Result<graph::Graph> Draft(const io::Checkpoint& checkpoint, const ModelOptions& options,
                           DraftInput from) {
  return BuildDecoderDraft(checkpoint, options, {.qk_norm = true}, from);
}

}  // namespace

extern const Model kQwen3_5;
const Model kQwen3_5{"qwen3_5", "Qwen3.5, Qwen3.6: 0.8B to 27B, 35B-A3B", Body, BuildDecoderHead,
                     Draft};

}  // namespace weft::models
