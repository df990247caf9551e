// The model's shape from GGUF metadata ("<arch>.block_count" and its like).
// Thread: any, pure function.  Source: llama.cpp's key names.
// Errors: kInvalid for a wrong or missing key, kUnsupported for a model that we would compute
// wrongly; each names the file, the key and what was found.
// What GGUF has no key for is read off the tensors: tied embeddings (no output.weight), biases, and
// the rope factors of llama 3 (rope_freqs.weight).
#pragma once

#include <span>

#include "io/gguf.h"
#include "io/model_config.h"

namespace weft::io {

// `tensors`: of all files of a split checkpoint.
Result<ModelConfig> ParseGgufConfig(const Gguf& gguf, std::span<const Tensor> tensors);

}  // namespace weft::io
