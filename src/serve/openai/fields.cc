#include "serve/openai/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::serve {

std::optional<int64_t> IntegerOf(const Json& value, int64_t min, int64_t max) {
  int64_t i = 0;
  if (value.is_int()) {
    i = value.as_int();
  } else if (value.is_double()) {
    const double d = value.as_double();
    // Beyond 2^53 a double no longer says which integer was meant.
    if (!(std::fabs(d) <= 9007199254740992.0) || d != std::floor(d)) return std::nullopt;
    i = static_cast<int64_t>(d);
  } else {
    return std::nullopt;
  }
  if (i < min || i > max) return std::nullopt;
  return i;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) {
    Fail(BadField(path_, fmt::format("{} must be a JSON object, not {}.",
                                     path_.empty() ? "The request" : path_, object.type_name())));
  }
}

std::string Fields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Fields::Fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void Fields::Fail(std::string_view key, std::string message) {
  Fail(BadField(PathOf(key), std::move(message)));
}

const Json* Fields::Get(std::string_view key) {
  known_.emplace_back(key);
  const Json* value = object_.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<int64_t> Fields::Int(std::string_view key, int64_t min, int64_t max) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  const auto i = IntegerOf(*value, min, max);
  if (!i) Fail(key, fmt::format("{} must be an integer from {} to {}.", PathOf(key), min, max));
  return i;
}

std::optional<double> Fields::Number(std::string_view key, double min, double max) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double d = value->as_double();
    if (std::isfinite(d) && d >= min && d <= max) return d;
  }
  Fail(key, fmt::format("{} must be a number from {} to {}.", PathOf(key), min, max));
  return std::nullopt;
}

std::optional<bool> Fields::Bool(std::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_bool()) return value->as_bool();
  Fail(key, fmt::format("{} must be true or false, not {}.", PathOf(key), value->type_name()));
  return std::nullopt;
}

std::optional<std::string> Fields::String(std::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->as_string();
  Fail(key, fmt::format("{} must be a string, not {}.", PathOf(key), value->type_name()));
  return std::nullopt;
}

std::optional<std::vector<int32_t>> Fields::Ids(std::string_view key, int64_t count_max) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) {
    Fail(key, fmt::format("{} must be a list of token ids.", PathOf(key)));
    return std::nullopt;
  }
  if (static_cast<int64_t>(value->as_array().size()) > count_max) {
    Fail(key, fmt::format("{} has more than {} entries.", PathOf(key), count_max));
    return std::nullopt;
  }
  std::vector<int32_t> ids;
  ids.reserve(value->as_array().size());
  for (const Json& entry : value->as_array()) {
    const auto id = IntegerOf(entry, 0, INT32_MAX);
    if (!id) {
      Fail(key, fmt::format("{} holds something that is no token id.", PathOf(key)));
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

std::vector<std::string> Fields::Unknown() const {
  std::vector<std::string> unknown;
  if (!object_.is_object()) return unknown;
  for (const auto& [key, value] : object_.as_object()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) unknown.push_back(key);
  }
  return unknown;
}

}  // namespace weft::serve
