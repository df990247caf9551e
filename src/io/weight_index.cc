#include "io/weight_index.h"

#include <unordered_map>

#include "io/printable.h"

namespace weft::io {
namespace {

constexpr size_t kFilesMax = 10'000;

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

Result<WeightIndex> ParseWeightIndex(const Json& json, const std::string& name) {
  const Json* map = json.Find("weight_map");
  if (map == nullptr) return Status::Invalid("{}: 'weight_map' is missing", name);
  if (!map->is_object()) {
    return Status::Invalid("{}: 'weight_map' must be an object, found {}", name, map->type_name());
  }
  if (map->as_object().empty()) return Status::Invalid("{}: 'weight_map' is empty", name);
  WeightIndex index;
  std::unordered_map<std::string, size_t> numbers;
  for (const auto& [tensor, file] : map->as_object()) {
    if (!file.is_string() || !IsPlainFileName(file.as_string())) {
      return Status::Invalid(
          "{}: tensor '{}' must be mapped to a file name without directories, "
          "found {}",
          name, Printable(tensor), Printable(DumpJson(file)));
    }
    const auto [at, added] = numbers.emplace(file.as_string(), index.files.size());
    if (added) index.files.push_back(file.as_string());
    if (index.files.size() > kFilesMax) {
      return Status::Invalid("{}: more than {} files", name, kFilesMax);
    }
    index.placement.emplace_back(tensor, at->second);
  }
  return index;
}

}  // namespace weft::io
