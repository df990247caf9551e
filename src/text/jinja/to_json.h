// tojson and from_json: JSON text of values, as Python's json.dumps writes it.
#pragma once

#include <string>

#include "text/jinja/interpreter.h"

namespace weft::text::jinja {

struct ToJsonStyle {
  int indent = -1;  // < 0: one line
  bool ascii_only = false;
  bool sort_keys = false;
  std::string comma = ", ";
  std::string colon = ": ";
};

// Fails for what JSON has no word for (undefined, functions).
std::string ToJson(Interpreter& run, const Value& value, const ToJsonStyle& style);

}  // namespace weft::text::jinja
