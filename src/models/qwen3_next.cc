// Qwen3-Next: as Qwen3.5 with experts; its files hold the delta net's projections interleaved by
// key head. Source: Qwen team 2025.
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

extern const Model kQwen3Next;
const Model kQwen3Next{"qwen3_next", "Qwen3-Next 80B-A3B", Body, BuildDecoderHead, Draft};

}  // namespace weft::models
