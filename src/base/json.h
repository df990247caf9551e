// JSON as a small value type, parsed with limits. Boost.JSON is behind json.cc alone.
// Objects keep insertion order (chat templates print them) and refuse a repeated key.
// Numbers keep their kind: integers that fit are int64/uint64, everything else is double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace weft {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}                               // NOLINT(google-explicit-constructor)
  Json(bool b) : value_(b) {}                           // NOLINT(google-explicit-constructor)
  Json(int i) : value_(int64_t{i}) {}                   // NOLINT(google-explicit-constructor)
  Json(int64_t i) : value_(i) {}                        // NOLINT(google-explicit-constructor)
  Json(uint64_t u);                                     // NOLINT(google-explicit-constructor)
  Json(double d) : value_(d) {}                         // NOLINT(google-explicit-constructor)
  Json(const char* s) : value_(std::string(s)) {}       // NOLINT(google-explicit-constructor)
  Json(std::string s) : value_(std::move(s)) {}         // NOLINT(google-explicit-constructor)
  Json(std::string_view s) : value_(std::string(s)) {}  // NOLINT(google-explicit-constructor)
  Json(Array a) : value_(std::move(a)) {}               // NOLINT(google-explicit-constructor)
  Json(Object o) : value_(std::move(o)) {}              // NOLINT(google-explicit-constructor)

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  // "null", "boolean", "integer", "number", "string", "array" or "object", for messages.
  std::string_view type_name() const;

  // REQUIRES: the matching is_*().
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_int() const { return std::get<int64_t>(value_); }
  double as_double() const;  // also of an integer
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const Array& as_array() const { return std::get<Array>(value_); }
  Array& as_array() { return std::get<Array>(value_); }
  const Object& as_object() const { return std::get<Object>(value_); }
  Object& as_object() { return std::get<Object>(value_); }

  // The member of an object, or nullptr (also if this is no object).
  const Json* Find(std::string_view key) const;
  // Adds or replaces a member; turns null into an object first.
  Json& Set(std::string_view key, Json value);
  // Appends; turns null into an array first.
  Json& Push(Json value);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

struct JsonLimits {
  size_t bytes_max = 16u << 20;
  size_t depth_max = 64;
};

// Errors: kInvalid with the byte offset for bad JSON, a repeated key, or a limit exceeded.
// Integers beyond uint64 and numbers beyond double are errors, not infinities.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

struct JsonStyle {
  int indent = 0;           // 0: one line
  bool spaces = false;      // ", " and ": " on one line, as Python's json.dumps
  bool ascii_only = false;  // \uXXXX for everything beyond ASCII
};
std::string DumpJson(const Json& json, const JsonStyle& style = {});

}  // namespace weft
