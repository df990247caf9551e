// The filters: `value | name(args)`.  One file, since each is a few lines and the table at the end
// is what one looks for.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"
#include "text/jinja/to_json.h"
#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

using Args = const CallArgs&;

bool TruthAt(Args args, size_t index, std::string_view name, bool otherwise) {
  const Value* value = args.Find(index, name);
  return value ? value->Truth() : otherwise;
}

int64_t IntAt(Interpreter& run, Args args, size_t index, std::string_view name, int64_t otherwise) {
  const Value* value = args.Find(index, name);
  if (!value || value->is_none()) return otherwise;
  if (!value->is_integral()) {
    run.Fail(fmt::format("'{}' must be an integer and is a {}", name, value->type_name()));
    return otherwise;
  }
  return value->as_int();
}

Value ToJsonFilter(Interpreter& run, const Value& value, Args args) {
  ToJsonStyle style;
  style.ascii_only = TruthAt(args, 0, "ensure_ascii", false);
  style.sort_keys = TruthAt(args, 3, "sort_keys", false);
  const Value* separators = args.Find(2, "separators");
  if (const Value* indent = args.Find(1, "indent"); indent && !indent->is_none()) {
    const int64_t width = IntAt(run, args, 1, "indent", 0);
    if (width > 64) return run.Fail("tojson with an indent of more than 64");
    style.indent = static_cast<int>(std::max<int64_t>(width, 0));
    style.comma = ",";
  }
  if (separators && !separators->is_none()) {
    if (!separators->is_list() || separators->as_list().items.size() != 2 ||
        !separators->as_list().items[0].is_string() ||
        !separators->as_list().items[1].is_string()) {
      return run.Fail("tojson's separators must be two strings");
    }
    style.comma = separators->as_list().items[0].as_string();
    style.colon = separators->as_list().items[1].as_string();
    if (style.comma.size() + style.colon.size() > 64)
      return run.Fail("tojson's separators are too long");
  }
  if (run.failed()) return Value();
  std::string text = ToJson(run, value, style);
  return run.failed() ? Value() : run.NewString(std::move(text));
}

Value FromJsonFilter(Interpreter& run, const Value& value, Args) {
  if (!value.is_string()) return run.Fail("from_json needs a string");
  if (!run.Charge(value.as_string().size() / 8)) return Value();
  const auto json = ParseJson(value.as_string());
  if (!json.ok()) return run.Fail(json.status().message());
  auto made = FromJson(*json, run.heap());
  return made.ok() ? *made : run.Fail(made.status().message());
}

Value Length(Interpreter& run, const Value& value, Args) {
  if (value.is_undefined()) return Value(int64_t{0});
  if (value.is_list()) return Value(static_cast<int64_t>(value.as_list().items.size()));
  if (value.is_dict()) return Value(static_cast<int64_t>(value.as_dict().members.size()));
  if (!value.is_string()) return run.Fail(fmt::format("a {} has no length", value.type_name()));
  if (!run.Charge(value.as_string().size() / 256)) return Value();
  return Value(static_cast<int64_t>(CountCodePoints(value.as_string())));
}

Value String(Interpreter& run, const Value& value, Args) {
  return value.is_string() ? value : run.NewString(run.Print(value));
}

Value Same(Interpreter&, const Value& value, Args) { return value; }

Value Trim(Interpreter& run, const Value& value, Args args) {
  const std::string text = run.Print(value);
  const Value* chars = args.Find(0, "chars");
  const bool given = chars && chars->is_string();
  if (!run.Charge(given ? text.size() / 64 * (1 + chars->as_string().size() / 8) : 0))
    return Value();
  return run.NewString(std::string(Strip(text, given ? &chars->as_string() : nullptr, true, true)));
}

Value Items(Interpreter& run, const Value& value, Args) {
  if (value.is_undefined()) return run.NewList({});
  if (!value.is_dict())
    return run.Fail(fmt::format("items of a {}; it needs a mapping", value.type_name()));
  std::vector<Value> items;
  if (!run.Charge(value.as_dict().members.size() * 2)) return Value();
  for (const auto& [key, member] : value.as_dict().members) {
    items.push_back(run.NewList({Value(key), member}, true));
  }
  return run.NewList(std::move(items));
}

Value AttributePath(Interpreter& run, const Value& value, const Value& path,
                    const Value* otherwise = nullptr);

Value Join(Interpreter& run, const Value& value, Args args) {
  const Value* separator = args.Find(0, "d");
  const std::string between = separator ? run.Print(*separator) : std::string();
  const Value* attribute = args.Find(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : run.Iterate(value)) {
    if (!run.Charge(1)) return Value();
    if (!std::exchange(first, false)) out += between;
    out += run.Print(attribute ? AttributePath(run, item, *attribute) : item);
    if (out.size() > run.limits().output_bytes_max) break;
  }
  return run.failed() ? Value() : run.NewString(std::move(out));
}

Value Default(Interpreter& run, const Value& value, Args args) {
  const Value* otherwise = args.Find(0, "default_value");
  if (!value.is_undefined() && !(TruthAt(args, 1, "boolean", false) && !value.Truth()))
    return value;
  return otherwise ? *otherwise : run.NewString("");
}

Value ToList(Interpreter& run, const Value& value, Args) { return run.NewList(run.Iterate(value)); }

Value Upper(Interpreter& run, const Value& v, Args) { return run.NewString(ToUpper(run.Print(v))); }
Value Lower(Interpreter& run, const Value& v, Args) { return run.NewString(ToLower(run.Print(v))); }
Value CapitalizeFilter(Interpreter& run, const Value& v, Args) {
  return run.NewString(Capitalize(run.Print(v)));
}
Value Title(Interpreter& run, const Value& v, Args) {
  return run.NewString(ToTitle(run.Print(v), true));
}

Value First(Interpreter& run, const Value& value, Args) {
  const std::vector<Value> items = run.Iterate(value);
  return items.empty() ? Value() : items.front();
}
Value Last(Interpreter& run, const Value& value, Args) {
  const std::vector<Value> items = run.Iterate(value);
  return items.empty() ? Value() : items.back();
}

Value Replace(Interpreter& run, const Value& value, Args args) {
  const Value* from = args.Find(0, "old");
  const Value* to = args.Find(1, "new");
  if (!from || !to || !from->is_string() || !to->is_string()) {
    return run.Fail("replace needs two strings");
  }
  const int64_t count = IntAt(run, args, 2, "count", -1);
  const std::string text = run.Print(value);
  if (run.failed() || !run.ChargeSearch(text, from->as_string())) return Value();
  // What it can grow to is known before it does.
  const size_t places =
      from->as_string().empty() ? text.size() + 1 : text.size() / from->as_string().size();
  const size_t used = count < 0 ? places : std::min(places, static_cast<size_t>(count));
  if (to->as_string().size() > 1 && used > run.limits().output_bytes_max / to->as_string().size()) {
    size_t found = from->as_string().empty() ? used : 0;
    for (size_t at = 0; !from->as_string().empty() && found < used; ++found) {
      at = FindText(text, from->as_string(), at);
      if (at == std::string_view::npos) break;
      at += from->as_string().size();
    }
    if (found > run.limits().output_bytes_max / to->as_string().size()) {
      return run.Fail(
          fmt::format("replace gives more than {} bytes", run.limits().output_bytes_max),
          StatusCode::kExhausted);
    }
  }
  return run.NewString(ReplaceText(text, from->as_string(), to->as_string(), count));
}

// "a.b.0" of a value, or an integer subscript; `otherwise` for each step that finds nothing.
Value AttributePath(Interpreter& run, const Value& value, const Value& path,
                    const Value* otherwise) {
  if (path.is_integral()) return run.Item(value, path);
  if (!path.is_string()) return run.Fail("an attribute must be a string or an integer");
  const std::string dot = ".";
  Value at = value;
  if (!run.Charge(1 + path.as_string().size() / 16)) return Value();
  for (const std::string& part : SplitText(path.as_string(), &dot, -1, false)) {
    if (run.failed()) return Value();
    int64_t number = 0;
    const char* end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, number);
    const bool is_number = !part.empty() && parsed.ec == std::errc() && parsed.ptr == end;
    at = run.Item(at, is_number ? Value(number) : Value(part));
    if (at.is_undefined() && otherwise) at = *otherwise;
  }
  return at;
}

// The arguments of a filter after the first `skip` by position.
CallArgs Rest(Args args, size_t skip) {
  CallArgs rest = args;
  rest.by_position.erase(
      rest.by_position.begin(),
      rest.by_position.begin() + static_cast<ptrdiff_t>(std::min(skip, rest.by_position.size())));
  return rest;
}

Value Map(Interpreter& run, const Value& value, Args args) {
  std::vector<Value> out;
  const Value* attribute = args.by_position.empty() ? args.Find(0, "attribute") : nullptr;
  const Value* otherwise = args.Find(~size_t{0}, "default");
  if (!attribute && (args.by_position.empty() || !args.by_position[0].is_string())) {
    return run.Fail("map needs the name of a filter or an attribute");
  }
  const CallArgs rest = Rest(args, 1);
  for (const Value& item : run.Iterate(value)) {
    if (!run.Charge(1)) return Value();
    Value mapped = attribute ? AttributePath(run, item, *attribute, otherwise)
                             : run.ApplyFilter(args.by_position[0].as_string(), item, rest);
    if (mapped.is_undefined() && otherwise) mapped = *otherwise;
    out.push_back(std::move(mapped));
  }
  return run.failed() ? Value() : run.NewList(std::move(out));
}

// select, reject and their forms by attribute.
Value Pick(Interpreter& run, const Value& value, Args args, bool by_attribute, bool keep) {
  const size_t skip = by_attribute ? 1 : 0;
  if (by_attribute && args.by_position.empty()) return run.Fail("an attribute is missing");
  const bool has_test = args.by_position.size() > skip;
  if (has_test && !args.by_position[skip].is_string()) return run.Fail("a test must be a string");
  const CallArgs rest = Rest(args, skip + 1);
  std::vector<Value> out;
  for (const Value& item : run.Iterate(value)) {
    if (!run.Charge(1)) return Value();
    const Value tested = by_attribute ? AttributePath(run, item, args.by_position[0]) : item;
    if (run.failed()) return Value();
    const bool holds =
        has_test ? run.ApplyTest(args.by_position[skip].as_string(), tested, rest) : tested.Truth();
    if (run.failed()) return Value();
    if (holds == keep) out.push_back(item);
  }
  return run.failed() ? Value() : run.NewList(std::move(out));
}
Value Select(Interpreter& r, const Value& v, Args a) { return Pick(r, v, a, false, true); }
Value Reject(Interpreter& r, const Value& v, Args a) { return Pick(r, v, a, false, false); }
Value SelectAttr(Interpreter& r, const Value& v, Args a) { return Pick(r, v, a, true, true); }
Value RejectAttr(Interpreter& r, const Value& v, Args a) { return Pick(r, v, a, true, false); }

// What sorting and uniqueness look at: strings without case unless told otherwise.
Value SortKey(Interpreter& run, const Value& item, const Value* attribute, bool case_sensitive) {
  const Value key =
      attribute && !attribute->is_none() ? AttributePath(run, item, *attribute) : item;
  return key.is_string() && !case_sensitive ? run.NewString(ToLower(key.as_string())) : key;
}

Value Unique(Interpreter& run, const Value& value, Args args) {
  std::vector<Value> keys;
  std::vector<Value> out;
  for (const Value& item : run.Iterate(value)) {
    const Value key =
        SortKey(run, item, args.Find(1, "attribute"), TruthAt(args, 0, "case_sensitive", false));
    bool known = false;
    for (size_t i = 0; i < keys.size() && !known && !run.failed(); ++i)
      known = run.Equal(keys[i], key);
    if (run.failed()) return Value();
    if (known) continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return run.failed() ? Value() : run.NewList(std::move(out));
}

Value Sorted(Interpreter& run, std::vector<Value> items, const Value* attribute,
             bool case_sensitive, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    if (run.failed()) return Value();
    keyed.emplace_back(SortKey(run, item, attribute, case_sensitive), std::move(item));
  }
  // After a failure every comparison is "not less", which is an order too.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    if (run.failed()) return false;
    const int order = reverse ? run.Compare(b.first, a.first) : run.Compare(a.first, b.first);
    return !run.failed() && order < 0;
  });
  std::vector<Value> out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return run.failed() ? Value() : run.NewList(std::move(out));
}

Value Sort(Interpreter& run, const Value& value, Args args) {
  return Sorted(run, run.Iterate(value), args.Find(2, "attribute"),
                TruthAt(args, 1, "case_sensitive", false), TruthAt(args, 0, "reverse", false));
}

Value DictSort(Interpreter& run, const Value& value, Args args) {
  const Value items = Items(run, value, {});
  if (run.failed()) return Value();
  const Value* by = args.Find(1, "by");
  const Value part(int64_t{by && by->is_string() && by->as_string() == "value" ? 1 : 0});
  return Sorted(run, items.as_list().items, &part, TruthAt(args, 0, "case_sensitive", false),
                TruthAt(args, 2, "reverse", false));
}

Value Extreme(Interpreter& run, const Value& value, Args args, int sign) {
  Value best, best_key;
  for (const Value& item : run.Iterate(value)) {
    const Value key =
        SortKey(run, item, args.Find(1, "attribute"), TruthAt(args, 0, "case_sensitive", false));
    if (!run.failed() && (best_key.is_undefined() || sign * run.Compare(key, best_key) > 0)) {
      best = item;
      best_key = key;
    }
    if (run.failed()) return Value();
  }
  return best;
}
Value Max(Interpreter& r, const Value& v, Args a) { return Extreme(r, v, a, 1); }
Value Min(Interpreter& r, const Value& v, Args a) { return Extreme(r, v, a, -1); }

Value Sum(Interpreter& run, const Value& value, Args args) {
  const Value* attribute = args.Find(0, "attribute");
  const Value* start = args.Find(1, "start");
  Value sum = start ? *start : Value(int64_t{0});
  for (const Value& item : run.Iterate(value)) {
    if (!run.Charge(1)) return Value();
    sum = run.Arithmetic(
        Op::kAdd, sum,
        attribute && !attribute->is_none() ? AttributePath(run, item, *attribute) : item);
  }
  return sum;
}

Value Reverse(Interpreter& run, const Value& value, Args) {
  std::vector<Value> items = run.Iterate(value);
  std::reverse(items.begin(), items.end());
  if (!value.is_string()) return run.NewList(std::move(items));
  std::string text;
  for (const Value& item : items) text += item.as_string();
  return run.NewString(std::move(text));
}

Value Int(Interpreter& run, const Value& value, Args args) {
  const Value* given = args.Find(0, "default");
  const Value otherwise = given ? *given : Value(int64_t{0});
  if (value.is_integral()) return Value(value.as_int());
  if (value.is_double()) {
    return std::abs(value.as_double()) < 9e18 ? Value(static_cast<int64_t>(value.as_double()))
                                              : otherwise;
  }
  if (!value.is_string()) return otherwise;
  std::string text(Strip(value.as_string(), nullptr, true, true));
  if (text.starts_with('+')) text.erase(0, 1);
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const int64_t base = IntAt(run, args, 1, "base", 10);
  if (base < 2 || base > 36) return run.Fail("int with a base that is not in 2..36");
  if (const auto r = std::from_chars(text.data(), end, number, static_cast<int>(base));
      r.ec == std::errc() && r.ptr == end && !text.empty()) {
    return Value(number);
  }
  double real = 0;
  if (const auto r = std::from_chars(text.data(), end, real);
      r.ec == std::errc() && r.ptr == end && std::abs(real) < 9e18) {
    return Value(static_cast<int64_t>(real));
  }
  return otherwise;
}

Value Float(Interpreter&, const Value& value, Args args) {
  const Value* given = args.Find(0, "default");
  if (value.is_number()) return Value(value.as_double());
  if (value.is_string()) {
    const std::string_view text = Strip(value.as_string(), nullptr, true, true);
    double real = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), real);
    if (r.ec == std::errc() && r.ptr == text.data() + text.size() && !text.empty())
      return Value(real);
  }
  return given ? *given : Value(0.0);
}

Value Round(Interpreter& run, const Value& value, Args args) {
  if (!value.is_number()) return run.Fail(fmt::format("round of a {}", value.type_name()));
  const int64_t digits = std::clamp<int64_t>(IntAt(run, args, 0, "precision", 0), -300, 300);
  const Value* method = args.Find(1, "method");
  const std::string how = method && method->is_string() ? method->as_string() : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double x = value.as_double();
  if (how == "ceil") return Value(std::ceil(x * scale) / scale);
  if (how == "floor") return Value(std::floor(x * scale) / scale);
  if (how != "common") return run.Fail("round is common, ceil or floor");
  if (value.is_integral() && digits >= 0) return Value(value.as_int());
  // As Python: halves to even, decided on the decimal digits of the number itself.
  if (digits < 0 || std::abs(x) > 1e15) return Value(std::nearbyint(x * scale) / scale);
  double rounded = 0;
  const std::string text = fmt::format("{:.{}f}", x, static_cast<int>(digits));
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return Value(rounded);
}

Value Abs(Interpreter& run, const Value& value, Args) {
  if (value.is_double()) return Value(std::abs(value.as_double()));
  if (!value.is_integral()) return run.Fail(fmt::format("abs of a {}", value.type_name()));
  return value.as_int() < 0 ? run.Arithmetic(Op::kSubtract, Value(int64_t{0}), value)
                            : Value(value.as_int());
}

Value Escape(Interpreter& run, const Value& value, Args) {
  std::string out;
  for (const char c : run.Print(value)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return run.NewString(std::move(out));
}

Value Indent(Interpreter& run, const Value& value, Args args) {
  const Value* width = args.Find(0, "width");
  std::string pad;
  if (width && width->is_string()) {
    pad = width->as_string();
  } else {
    const int64_t blanks = IntAt(run, args, 0, "width", 4);
    if (blanks > 1000) return run.Fail("indent by more than 1000");
    pad.assign(static_cast<size_t>(std::max<int64_t>(blanks, 0)), ' ');
  }
  const bool first = TruthAt(args, 1, "first", false);
  const bool blank = TruthAt(args, 2, "blank", false);
  const std::string text = run.Print(value) + "\n";  // so that a last line break makes a line
  std::string out = first ? pad : "";
  const std::vector<std::string> lines = SplitLines(text, false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!run.Charge(1 + pad.size() / 64) || out.size() > run.limits().output_bytes_max) break;
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += pad;
    out += lines[i];
  }
  return run.failed() ? Value() : run.NewString(std::move(out));
}

struct Filter {
  std::string_view name;
  Value (*apply)(Interpreter&, const Value&, Args);
};

constexpr Filter kFilters[] = {
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"length", Length},
    {"string", String},
    {"items", Items},
    {"join", Join},
    {"default", Default},
    {"safe", Same},
    {"list", ToList},
    {"map", Map},
    {"select", Select},
    {"reject", Reject},
    {"selectattr", SelectAttr},
    {"rejectattr", RejectAttr},
    {"replace", Replace},
    {"upper", Upper},
    {"lower", Lower},
    {"capitalize", CapitalizeFilter},
    {"title", Title},
    {"first", First},
    {"last", Last},
    {"unique", Unique},
    {"sort", Sort},
    {"dictsort", DictSort},
    {"max", Max},
    {"min", Min},
    {"sum", Sum},
    {"reverse", Reverse},
    {"int", Int},
    {"float", Float},
    {"round", Round},
    {"abs", Abs},
    {"from_json", FromJsonFilter},
    {"escape", Escape},
    {"e", Escape},
    {"indent", Indent},
    {"count", Length},
    {"d", Default},
};

}  // namespace

Value Interpreter::ApplyFilter(std::string_view name, const Value& value, const CallArgs& args) {
  if (!Charge(1)) return Value();
  for (const Filter& filter : kFilters) {
    if (filter.name == name) return filter.apply(*this, value, args);
  }
  return Fail(fmt::format("there is no filter '{:.64}'", name));
}

bool IsFilter(std::string_view name) {
  return std::any_of(std::begin(kFilters), std::end(kFilters),
                     [&](const Filter& filter) { return filter.name == name; });
}

}  // namespace weft::text::jinja
