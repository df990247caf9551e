// A JSON file beside the weights (config.json and its like).
#pragma once

#include <string>

#include "base/json.h"

namespace weft::io {

// Errors: kNotFound if there is no such file, kInvalid otherwise; both name the file. The top level
// must be an object.
Result<Json> ReadJsonObject(const std::string& path, const JsonLimits& limits = {});

}  // namespace weft::io
