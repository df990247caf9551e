// Options whose value is a JSON object, as vLLM has them. Thread: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace weft::cli {

using Names = std::span<const std::string_view>;

// Objects by key, everything else replaced.
void MergeJson(Json* into, const Json& over);

// All of one option's words as one object. Errors: kInvalid naming the option.
Result<Json> ReadObject(const std::vector<std::string>& words, std::string_view option);

// Every key is one of `known`; those not in `read` are added to `idle`, with `path` in front.
// Errors: kInvalid with the nearest key.
Status CheckKeys(const Json& object, const std::string& where, std::string_view path, Names known,
                 Names read, std::vector<std::string>* idle);

}  // namespace weft::cli
