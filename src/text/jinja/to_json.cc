#include "text/jinja/to_json.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace weft::text::jinja {
namespace {

void AppendBreak(std::string& out, const ToJsonStyle& style, int depth) {
  if (style.indent >= 0) out.append(1, '\n').append(static_cast<size_t>(style.indent * depth), ' ');
}

void AppendString(Interpreter& run, std::string_view text, const ToJsonStyle& style,
                  std::string& out) {
  run.Charge(text.size() / 64);
  out += DumpJson(Json(text), {.ascii_only = style.ascii_only});
}

void Append(Interpreter& run, const Value& value, const ToJsonStyle& style, int depth,
            std::string& out) {
  if (!run.Charge(1 + (style.indent > 0 ? static_cast<size_t>(style.indent * depth) / 32 : 0)))
    return;
  if (depth > run.limits().depth_max || out.size() > run.limits().output_bytes_max) {
    run.Fail(fmt::format("tojson of more than {} levels or {} bytes", run.limits().depth_max,
                         run.limits().output_bytes_max),
             StatusCode::kExhausted);
    return;
  }
  if (value.is_none()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += fmt::format("{}", value.as_int());
  } else if (value.is_double()) {
    const double d = value.as_double();
    out += std::isnan(d)   ? "NaN"
           : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity")
                           : DumpJson(Json(d));
  } else if (value.is_string()) {
    AppendString(run, value.as_string(), style, out);
  } else if (value.is_list()) {
    const auto& items = value.as_list().items;
    out += '[';
    for (size_t i = 0; i < items.size() && !run.failed(); ++i) {
      if (i > 0) out += style.comma;
      AppendBreak(out, style, depth + 1);
      Append(run, items[i], style, depth + 1, out);
    }
    if (!items.empty()) AppendBreak(out, style, depth);
    out += ']';
  } else if (value.is_dict() && !value.as_dict().is_namespace) {
    std::vector<const Dict::Member*> members;
    if (!run.Charge(value.as_dict().members.size() * (style.sort_keys ? 4 : 1))) return;
    for (const auto& member : value.as_dict().members) members.push_back(&member);
    if (style.sort_keys) {
      std::sort(members.begin(), members.end(),
                [](auto* a, auto* b) { return a->first < b->first; });
    }
    out += '{';
    bool first = true;
    for (const Dict::Member* member : members) {
      if (run.failed()) return;
      if (!std::exchange(first, false)) out += style.comma;
      AppendBreak(out, style, depth + 1);
      AppendString(run, member->first, style, out);
      out += style.colon;
      Append(run, member->second, style, depth + 1, out);
    }
    if (!first) AppendBreak(out, style, depth);
    out += '}';
  } else {
    run.Fail(fmt::format("tojson of a value that is {}", value.type_name()));
  }
}

}  // namespace

std::string ToJson(Interpreter& run, const Value& value, const ToJsonStyle& style) {
  std::string out;
  Append(run, value, style, 0, out);
  return out;
}

}  // namespace weft::text::jinja
