#include "io/json_file.h"

#include "io/mapping.h"

namespace weft::io {

Result<Json> ReadJsonObject(const std::string& path, const JsonLimits& limits) {
  WEFT_ASSIGN_OR_RETURN(const Mapping file, Mapping::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  Result<Json> json =
      ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, limits);
  if (!json.ok()) return json.status().In(path);
  if (!json->is_object()) {
    return Status::Invalid("{}: must hold an object, found {}", path, json->type_name());
  }
  return json;
}

}  // namespace weft::io
