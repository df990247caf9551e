// config.json and generation_config.json of a Hugging Face checkpoint.
// Thread: any, pure functions.  Source: the configuration classes of transformers 4 and 5.
// Errors: kInvalid for a wrong or missing field, kUnsupported for a model that we would compute
// wrongly (another architecture, activation, rope, a sliding window, quantised weights); each names
// the file, the key and what was found. Keys that name code (auto_map) are ignored with a note.
#pragma once

#include <string>

#include "base/json.h"
#include "io/model_config.h"

namespace weft::io {

Result<ModelConfig> ParseHfConfig(const Json& json, const std::string& file);

// Adds generation_config.json's end-of-answer ids and sampling defaults to `config`.
Status AddHfGenerationConfig(const Json& json, const std::string& file, ModelConfig* config);

// Both files of a directory; the second may be missing.
Result<ModelConfig> ReadHfConfig(const std::string& directory);

}  // namespace weft::io
