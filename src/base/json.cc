#include "base/json.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace weft {
namespace {

// Builds Json values from the parser's events; one frame per open array or object.
struct Handler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  using Error = boost::system::error_code;
  using View = boost::json::string_view;

  struct Frame {
    Json value;
    std::string key;                       // of the member that is being read
    std::unordered_set<std::string> keys;  // of an object, to refuse a repeated one
  };

  std::vector<Frame> open;
  Json root;
  std::string text;
  std::string repeated_key;

  bool Place(Json value) {
    if (open.empty()) {
      root = std::move(value);
    } else if (open.back().value.is_array()) {
      open.back().value.as_array().push_back(std::move(value));
    } else {
      open.back().value.as_object().emplace_back(std::move(open.back().key), std::move(value));
    }
    return true;
  }
  bool Close() {
    Json value = std::move(open.back().value);
    open.pop_back();
    return Place(std::move(value));
  }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_array_begin(Error&) {
    open.push_back({Json(Json::Array{}), {}, {}});
    return true;
  }
  bool on_array_end(std::size_t, Error&) { return Close(); }
  bool on_object_begin(Error&) {
    open.push_back({Json(Json::Object{}), {}, {}});
    return true;
  }
  bool on_object_end(std::size_t, Error&) { return Close(); }
  bool on_string_part(View s, std::size_t, Error&) {
    text.append(s.data(), s.size());
    return true;
  }
  bool on_string(View s, std::size_t, Error&) {
    text.append(s.data(), s.size());
    return Place(Json(std::exchange(text, {})));
  }
  bool on_key_part(View s, std::size_t, Error&) {
    text.append(s.data(), s.size());
    return true;
  }
  bool on_key(View s, std::size_t, Error& error) {
    text.append(s.data(), s.size());
    Frame& frame = open.back();
    frame.key = std::exchange(text, {});
    if (!frame.keys.insert(frame.key).second) {
      repeated_key = frame.key;
      error = boost::json::error::syntax;
      return false;
    }
    return true;
  }
  bool on_number_part(View, Error&) { return true; }
  bool on_int64(int64_t i, View, Error&) { return Place(Json(i)); }
  bool on_uint64(uint64_t u, View, Error&) { return Place(Json(u)); }
  bool on_double(double d, View, Error& error) {
    if (!std::isfinite(d)) {
      error = boost::json::error::exponent_overflow;
      return false;
    }
    return Place(Json(d));
  }
  bool on_bool(bool b, Error&) { return Place(Json(b)); }
  bool on_null(Error&) { return Place(Json()); }
  bool on_comment_part(View, Error&) { return true; }
  bool on_comment(View, Error&) { return true; }
};

void AppendString(std::string& out, std::string_view s, bool ascii_only) {
  out += '"';
  for (size_t i = 0; i < s.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(s[i]);
    switch (c) {
      case '"': out += "\\\""; continue;
      case '\\': out += "\\\\"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      case '\b': out += "\\b"; continue;
      case '\f': out += "\\f"; continue;
      default: break;
    }
    if (c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else if (c < 0x80 || !ascii_only) {
      out += static_cast<char>(c);
    } else {
      // The parser and the tokenizer give valid UTF-8; a stray byte becomes U+FFFD.
      const int length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
      uint32_t code = 0xfffd;
      if (length > 1 && i + length <= s.size()) {
        code = c & (0x7fu >> length);
        for (int j = 1; j < length; ++j)
          code = (code << 6) | (static_cast<unsigned char>(s[i + j]) & 0x3fu);
        i += length - 1;
      }
      if (code >= 0x10000) {
        code -= 0x10000;
        out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
      } else {
        out += fmt::format("\\u{:04x}", code);
      }
    }
  }
  out += '"';
}

void AppendDouble(std::string& out, double d) {
  if (!std::isfinite(d)) {
    out += "null";  // JSON has no other word for it
    return;
  }
  std::string s = fmt::format("{}", d);  // the shortest form that reads back as the same double
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  out += s;
}

void AppendBreak(std::string& out, const JsonStyle& style, int depth) {
  if (style.indent > 0) out.append(1, '\n').append(static_cast<size_t>(style.indent * depth), ' ');
}

void Append(std::string& out, const Json& json, const JsonStyle& style, int depth) {
  const std::string_view comma = style.spaces && style.indent == 0 ? ", " : ",";
  const std::string_view colon = style.spaces || style.indent > 0 ? ": " : ":";
  if (json.is_null()) {
    out += "null";
  } else if (json.is_bool()) {
    out += json.as_bool() ? "true" : "false";
  } else if (json.is_int()) {
    out += fmt::format("{}", json.as_int());
  } else if (json.is_double()) {
    AppendDouble(out, json.as_double());
  } else if (json.is_string()) {
    AppendString(out, json.as_string(), style.ascii_only);
  } else if (json.is_array()) {
    out += '[';
    bool first = true;
    for (const Json& item : json.as_array()) {
      if (!std::exchange(first, false)) out += comma;
      AppendBreak(out, style, depth + 1);
      Append(out, item, style, depth + 1);
    }
    if (!first) AppendBreak(out, style, depth);
    out += ']';
  } else {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : json.as_object()) {
      if (!std::exchange(first, false)) out += comma;
      AppendBreak(out, style, depth + 1);
      AppendString(out, key, style.ascii_only);
      out += colon;
      Append(out, value, style, depth + 1);
    }
    if (!first) AppendBreak(out, style, depth);
    out += '}';
  }
}

}  // namespace

Json::Json(uint64_t u) {
  if (u <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    value_ = static_cast<int64_t>(u);
  } else {
    value_ = static_cast<double>(u);
  }
}

std::string_view Json::type_name() const {
  constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object"};
  return kNames[value_.index()];
}

double Json::as_double() const {
  return is_int() ? static_cast<double>(as_int()) : std::get<double>(value_);
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : as_object()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json& Json::Set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  Object& object = std::get<Object>(value_);
  for (Member& member : object) {
    if (member.first == key) return member.second = std::move(value);
  }
  return object.emplace_back(std::string(key), std::move(value)).second;
}

Json& Json::Push(Json value) {
  if (is_null()) value_ = Array{};
  return std::get<Array>(value_).emplace_back(std::move(value));
}

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return Status::Invalid("JSON of {} bytes exceeds the limit of {}", text.size(),
                           limits.bytes_max);
  }
  boost::json::parse_options options;
  options.max_depth = limits.depth_max;
  boost::json::basic_parser<Handler> parser(options);
  boost::system::error_code error;
  const size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && used < text.size()) error = boost::json::error::extra_data;
  Handler& handler = parser.handler();
  if (!handler.repeated_key.empty()) {
    return Status::Invalid("JSON has the key '{:.64}' twice", handler.repeated_key);
  }
  if (error == boost::json::error::too_deep) {
    return Status::Invalid("JSON is nested deeper than {} levels", limits.depth_max);
  }
  if (error) return Status::Invalid("bad JSON at byte {}: {}", used, error.message());
  return std::move(handler.root);
}

std::string DumpJson(const Json& json, const JsonStyle& style) {
  std::string out;
  Append(out, json, style, 0);
  return out;
}

}  // namespace weft
