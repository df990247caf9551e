// Fields of a JSON object, read into the range that they may have.
// Errors: kInvalid "file: 'key' must be <expected>, found <value>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace weft::io {

struct IntRange {
  int64_t min;
  int64_t max;
};

// (min, max]: what the positive real numbers of a config need.
struct RealRange {
  double above;
  double max;
};

class JsonFields {
 public:
  // Both must outlive the reader. `file` may go on with a key: "config.json: rope_scaling".
  JsonFields(const Json& object, std::string file) : object_(object), file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  // The member, or nullptr if it is absent or null: the two mean the same in these files.
  const Json* Find(std::string_view key) const;

  Result<int64_t> Int(std::string_view key, IntRange range) const;
  Result<std::optional<int64_t>> IntIfAny(std::string_view key, IntRange range) const;
  Result<double> Real(std::string_view key, RealRange range) const;
  Result<std::optional<double>> RealIfAny(std::string_view key, RealRange range) const;
  Result<bool> BoolOr(std::string_view key, bool otherwise) const;
  Result<std::string> StringOr(std::string_view key, std::string otherwise) const;

  Status Bad(std::string_view key, std::string_view expected, const Json& found) const;
  Status Missing(std::string_view key) const;

 private:
  const Json& object_;
  std::string file_;
};

}  // namespace weft::io
