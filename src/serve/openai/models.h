// /v1/models: the cards of the served names, vLLM's fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace weft::serve {

struct ServedModels {
  std::vector<std::string> names;  // aliases of one model; the first is the one answers carry
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;
  int64_t created = 0;

  bool Has(std::string_view name) const;
};

Json ModelCard(const ServedModels& models, std::string_view name);
Json ModelList(const ServedModels& models);

}  // namespace weft::serve
