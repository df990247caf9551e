// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
// Thread: plain data.  Errors: kInvalid, naming the file; a shard's name must be a plain file name,
// so that an index cannot reach outside its directory. "total_size" is not trusted and not read.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace weft::io {

struct WeightIndex {
  std::vector<std::string> files;                         // each once, in order of appearance
  std::vector<std::pair<std::string, size_t>> placement;  // tensor name, index into files
};

Result<WeightIndex> ParseWeightIndex(const Json& json, const std::string& name);

}  // namespace weft::io
