#include "serve/openai/models.h"

#include <algorithm>

namespace weft::serve {

bool ServedModels::Has(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Json ModelCard(const ServedModels& models, std::string_view name) {
  Json meta;
  meta.Set("vocab_size", models.vocab_size);
  Json out;
  out.Set("id", name);
  out.Set("object", "model");
  out.Set("created", models.created);
  out.Set("owned_by", "weft");
  // A name, not the path that --model had: where files lie is nobody's business.
  out.Set("root", models.names.front());
  out.Set("parent", Json());
  out.Set("max_model_len", models.max_model_len);
  out.Set("permission", Json(Json::Array{}));
  out.Set("meta", std::move(meta));
  return out;
}

Json ModelList(const ServedModels& models) {
  Json::Array cards;
  for (const std::string& name : models.names) cards.push_back(ModelCard(models, name));
  Json out;
  out.Set("object", "list");
  out.Set("data", std::move(cards));
  return out;
}

}  // namespace weft::serve
