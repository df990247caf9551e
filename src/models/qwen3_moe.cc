// Qwen3 with experts: Qwen3's decoder, its layers' feed-forward a mixture of experts. Source: Qwen
// team 2025.
#include "models/decoder.h"

namespace weft::models {
namespace {

Result<graph::Graph> Body(const io::Checkpoint& checkpoint, const ModelOptions& options) {
  return BuildDecoderBody(checkpoint, options, {.qk_norm = true});
}

}  // namespace

extern const Model kQwen3Moe;
const Model kQwen3Moe{"qwen3_moe", "Qwen3 30B-A3B, 235B-A22B", Body, BuildDecoderHead};

}  // namespace weft::models
