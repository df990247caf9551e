// Qwen2: the plain decoder with biases on q, k and v. Source: Qwen team 2024.
#include "models/decoder.h"

namespace weft::models {
namespace {

Result<graph::Graph> Body(const io::Checkpoint& checkpoint, const ModelOptions& options) {
  return BuildDecoderBody(checkpoint, options, {.qk_norm = false});
}

}  // namespace

extern const Model kQwen2;
const Model kQwen2{"qwen2", "Qwen2, Qwen2.5", Body, BuildDecoderHead};

}  // namespace weft::models
