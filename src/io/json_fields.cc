#include "io/json_fields.h"

#include <fmt/core.h>

#include "io/model_config.h"
#include "io/printable.h"

namespace weft::io {

const Json* JsonFields::Find(std::string_view key) const {
  const Json* value = object_.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status JsonFields::Bad(std::string_view key, std::string_view expected, const Json& found) const {
  return BadField(file_, key, expected, Printable(DumpJson(found)));
}

Status JsonFields::Missing(std::string_view key) const {
  return Status::Invalid("{}: '{}' is missing", file_, key);
}

Result<std::optional<int64_t>> JsonFields::IntIfAny(std::string_view key, IntRange range) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!value->is_int() || value->as_int() < range.min || value->as_int() > range.max) {
    return Bad(key, fmt::format("an integer from {} to {}", range.min, range.max), *value);
  }
  return std::optional<int64_t>(value->as_int());
}

Result<int64_t> JsonFields::Int(std::string_view key, IntRange range) const {
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> value, IntIfAny(key, range));
  if (!value) return Missing(key);
  return *value;
}

Result<std::optional<double>> JsonFields::RealIfAny(std::string_view key, RealRange range) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  // Written so that a NaN fails.
  const bool good =
      value->is_number() && value->as_double() > range.above && value->as_double() <= range.max;
  if (!good) {
    return Bad(key, fmt::format("a number above {} and up to {}", range.above, range.max), *value);
  }
  return std::optional<double>(value->as_double());
}

Result<double> JsonFields::Real(std::string_view key, RealRange range) const {
  WEFT_ASSIGN_OR_RETURN(const std::optional<double> value, RealIfAny(key, range));
  if (!value) return Missing(key);
  return *value;
}

Result<bool> JsonFields::BoolOr(std::string_view key, bool otherwise) const {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) return Bad(key, "true or false", *value);
  return value->as_bool();
}

Result<std::string> JsonFields::StringOr(std::string_view key, std::string otherwise) const {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) return Bad(key, "a string", *value);
  return value->as_string();
}

}  // namespace weft::io
