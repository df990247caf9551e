// Llama: the plain decoder; biases where the config says so. Source: Touvron et al. 2023.
#include "models/decoder.h"

namespace weft::models {
namespace {

Result<graph::Graph> Body(const io::Checkpoint& checkpoint, const ModelOptions& options) {
  return BuildDecoderBody(checkpoint, options, {.qk_norm = false});
}

}  // namespace

extern const Model kLlama;
const Model kLlama{"llama", "Llama 2 and 3, SmolLM2, Mistral without windows", Body,
                   BuildDecoderHead};

}  // namespace weft::models
