// Equality, order, membership, iteration and printing of values.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

// repr() of a string: single quotes unless only those occur in it, what cannot be seen escaped.
void AppendStringRepr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = ReadUtf8(text, i);
    const std::string_view bytes = text.substr(i, c.bytes);
    i += c.bytes;
    if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (c.value == '\\' || c.value == static_cast<char32_t>(quote)) {
      out += '\\';
      out += bytes;
    } else if (c.value >= 0x20 && c.value < 0x7f) {
      out += bytes;
    } else {
      const int category = utf8proc_category(static_cast<utf8proc_int32_t>(c.value));
      const bool hidden = category == UTF8PROC_CATEGORY_CN || category >= UTF8PROC_CATEGORY_ZS;
      if (!hidden) {
        out += bytes;
      } else if (c.value < 0x100) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", uint32_t{c.value});
      } else if (c.value < 0x10000) {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", uint32_t{c.value});
      } else {
        fmt::format_to(std::back_inserter(out), "\\U{:08x}", uint32_t{c.value});
      }
    }
  }
  out += quote;
}

void AppendDouble(double d, std::string& out) {
  if (std::isnan(d)) {
    out += "nan";
  } else if (std::isinf(d)) {
    out += d < 0 ? "-inf" : "inf";
  } else {
    std::string text = fmt::format("{}", d);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    out += text;
  }
}

}  // namespace

std::string Interpreter::Print(const Value& value) {
  std::string out;
  if (value.is_undefined()) return out;
  if (value.is_string()) return value.as_string();
  AppendRepr(value, out);
  return out;
}

void Interpreter::AppendRepr(const Value& value, std::string& out, int depth) {
  if (!Charge(1)) return;
  if (depth > limits_.depth_max) {
    Fail(fmt::format("a value nested deeper than {} levels", limits_.depth_max),
         StatusCode::kExhausted);
    return;
  }
  if (out.size() > limits_.output_bytes_max) {
    Fail(fmt::format("a printed value of more than {} bytes", limits_.output_bytes_max),
         StatusCode::kExhausted);
    return;
  }
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "True" : "False";
  } else if (value.is_int()) {
    out += fmt::format("{}", value.as_int());
  } else if (value.is_double()) {
    AppendDouble(value.as_double(), out);
  } else if (value.is_string()) {
    Charge(value.as_string().size() / 64);
    AppendStringRepr(value.as_string(), out);
  } else if (value.is_list()) {
    const List& list = value.as_list();
    out += list.tuple ? '(' : '[';
    for (size_t i = 0; i < list.items.size() && !failed(); ++i) {
      if (i > 0) out += ", ";
      AppendRepr(list.items[i], out, depth + 1);
    }
    if (list.tuple && list.items.size() == 1) out += ',';
    out += list.tuple ? ')' : ']';
  } else if (value.is_dict()) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.as_dict().members) {
      if (failed()) break;
      if (!std::exchange(first, false)) out += ", ";
      AppendStringRepr(key, out);
      out += ": ";
      AppendRepr(member, out, depth + 1);
    }
    out += '}';
  } else {
    out += value.is_loop() ? "<loop>" : "<function>";
  }
}

bool Interpreter::Equal(const Value& a, const Value& b, int depth) {
  if (!Charge(1)) return false;
  if (depth > limits_.depth_max) {
    Fail(fmt::format("values nested deeper than {} levels", limits_.depth_max),
         StatusCode::kExhausted);
    return false;
  }
  if (a.is_number() && b.is_number()) {
    if (a.is_double() || b.is_double()) return a.as_double() == b.as_double();
    return a.as_int() == b.as_int();
  }
  if (a.is_string() && b.is_string()) return a.as_string() == b.as_string();
  if (a.is_list() && b.is_list()) {
    const List& x = a.as_list();
    const List& y = b.as_list();
    if (x.tuple != y.tuple || x.items.size() != y.items.size()) return false;
    for (size_t i = 0; i < x.items.size(); ++i) {
      if (!Equal(x.items[i], y.items[i], depth + 1)) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (&a.as_dict() == &b.as_dict()) return true;
    if (a.as_dict().members.size() != b.as_dict().members.size()) return false;
    for (const auto& [key, value] : a.as_dict().members) {
      const Value* other = b.as_dict().Find(key);
      if (!other || !Equal(value, *other, depth + 1)) return false;
    }
    return true;
  }
  if (a.is_loop() && b.is_loop()) return &a.as_loop() == &b.as_loop();
  if (a.is_callable() && b.is_callable()) return &a.as_callable() == &b.as_callable();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int Interpreter::Compare(const Value& a, const Value& b, int depth) {
  if (!Charge(1)) return 0;
  if (a.is_number() && b.is_number()) {
    if (a.is_double() || b.is_double()) {
      const double x = a.as_double();
      const double y = b.as_double();
      return x < y ? -1 : x > y ? 1 : 0;
    }
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  // The order of UTF-8 bytes is the order of code points.
  if (a.is_string() && b.is_string()) return a.as_string().compare(b.as_string());
  if (a.is_list() && b.is_list() && depth < limits_.depth_max) {
    const auto& x = a.as_list().items;
    const auto& y = b.as_list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()) && !failed(); ++i) {
      if (!Equal(x[i], y[i], depth + 1)) return Compare(x[i], y[i], depth + 1);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  for (const Value* v : {&a, &b}) {
    if (v->is_undefined()) {
      Fail(fmt::format("'{:.64}' is undefined", v->undefined_name()));
      return 0;
    }
  }
  Fail(fmt::format("a {} and a {} have no order", a.type_name(), b.type_name()));
  return 0;
}

bool Interpreter::Contains(const Value& whole, const Value& part) {
  if (whole.is_string()) {
    if (!part.is_string()) {
      Fail(fmt::format("'in' a string needs a string and not a {}", part.type_name()));
      return false;
    }
    if (!ChargeSearch(whole.as_string(), part.as_string())) return false;
    return FindText(whole.as_string(), part.as_string()) != std::string_view::npos;
  }
  if (whole.is_dict()) return part.is_string() && whole.as_dict().Find(part.as_string()) != nullptr;
  if (whole.is_list()) {
    for (const Value& item : whole.as_list().items) {
      if (Equal(item, part)) return true;
      if (failed()) return false;
    }
    return false;
  }
  if (!whole.is_undefined()) Fail(fmt::format("a {} contains nothing", whole.type_name()));
  return false;
}

std::vector<Value> Interpreter::Iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_list()) {
    if (Charge(value.as_list().items.size() / 8)) items = value.as_list().items;
  } else if (value.is_dict()) {
    if (!Charge(value.as_dict().members.size())) return items;
    for (const auto& member : value.as_dict().members) items.emplace_back(member.first);
  } else if (value.is_string()) {
    const std::string& text = value.as_string();
    if (!Charge(text.size())) return items;
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = ReadUtf8(text, i);
      items.emplace_back(text.substr(i, c.bytes));
      i += c.bytes;
    }
  } else if (!value.is_undefined()) {
    Fail(fmt::format("a {} has no elements to go through", value.type_name()));
  }
  return items;
}

}  // namespace weft::text::jinja
