// Qwen3: the plain decoder with a norm per head on q and k. Source: Qwen team 2025.
#include "models/decoder.h"

namespace weft::models {
namespace {

Result<graph::Graph> Body(const io::Checkpoint& checkpoint, const ModelOptions& options) {
  return BuildDecoderBody(checkpoint, options, {.qk_norm = true});
}

}  // namespace

extern const Model kQwen3;
const Model kQwen3{"qwen3", "Qwen3 0.6B to 32B", Body, BuildDecoderHead};

}  // namespace weft::models
