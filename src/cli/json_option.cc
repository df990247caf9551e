#include "cli/json_option.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"

namespace weft::cli {

void MergeJson(Json* into, const Json& over) {
  if (!into->is_object() || !over.is_object()) {
    *into = over;
    return;
  }
  for (const auto& [key, value] : over.as_object()) {
    const Json* found = into->Find(key);
    Json merged = found == nullptr ? Json() : *found;
    MergeJson(&merged, value);
    into->Set(key, std::move(merged));
  }
}

Result<Json> ReadObject(const std::vector<std::string>& words, std::string_view option) {
  Json merged(Json::Object{});
  for (const std::string& word : words) {
    Result<Json> json = ParseJson(word);
    if (!json.ok()) return json.status().In(option);
    if (!json->is_object())
      return Status::Invalid("{} '{}': a JSON object wanted, found {}", option, word,
                             json->type_name());
    MergeJson(&merged, *json);
  }
  return merged;
}

Status CheckKeys(const Json& object, const std::string& where, std::string_view path, Names known,
                 Names read, std::vector<std::string>* idle) {
  for (const auto& [key, value] : object.as_object()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::vector<std::string> names(known.begin(), known.end());
      const std::string near = Nearest(key, names);
      return Status::Invalid("{}: unknown key '{}'; {}", where, key,
                             near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                          : fmt::format("did you mean '{}'?", near));
    }
    if (std::find(read.begin(), read.end(), key) == read.end())
      idle->push_back(fmt::format("{}{}", path, key));
  }
  return Status::Ok();
}

}  // namespace weft::cli
