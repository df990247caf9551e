// Reads the members of a JSON object into checked C++ types. The first thing wrong is kept as an
// ApiError that names the field; reading on afterwards is harmless. null means absent, everywhere.
// Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/openai/errors.h"

namespace weft::serve {

class Fields {
 public:
  // `object` outlives this. `path` goes in front of names in messages.
  explicit Fields(const Json& object, std::string path = "");

  // The member, or nullptr if it is absent or null. Counts as known.
  const Json* Get(std::string_view key);
  // Integers may be written as 3 or 3.0, never as "3"; the range is closed.
  std::optional<int64_t> Int(std::string_view key, int64_t min, int64_t max);
  std::optional<double> Number(std::string_view key, double min, double max);
  std::optional<bool> Bool(std::string_view key);
  std::optional<std::string> String(std::string_view key);
  // A list of integers; at most `count_max`.
  std::optional<std::vector<int32_t>> Ids(std::string_view key, int64_t count_max);

  void Fail(ApiError error);
  void Fail(std::string_view key, std::string message);
  bool ok() const { return !error_; }
  const std::optional<ApiError>& error() const { return error_; }
  std::string PathOf(std::string_view key) const;

  // Members that nobody asked for.
  std::vector<std::string> Unknown() const;

 private:
  const Json& object_;
  std::string path_;
  std::vector<std::string> known_;
  std::optional<ApiError> error_;
};

// An integer of a JSON value in [min, max]; nothing if it is none.
std::optional<int64_t> IntegerOf(const Json& value, int64_t min, int64_t max);

}  // namespace weft::serve
