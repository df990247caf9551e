// Functions that a template can call by name, and methods of strings, lists, mappings and loops.
#include <algorithm>
#include <array>

#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

constexpr std::array<std::string_view, 26> kStringMethods{
    "split",    "rsplit",  "splitlines", "strip",        "lstrip",      "rstrip",     "startswith",
    "endswith", "replace", "upper",      "lower",        "title",       "capitalize", "find",
    "rfind",    "index",   "count",      "join",         "isdigit",     "isalpha",    "isalnum",
    "isspace",  "isupper", "islower",    "removeprefix", "removesuffix"};
constexpr std::array<std::string_view, 9> kDictMethods{
    "items", "keys", "values", "get", "update", "pop", "copy", "setdefault", "clear"};
constexpr std::array<std::string_view, 9> kListMethods{
    "append", "extend", "insert", "pop", "index", "count", "reverse", "copy", "clear"};
constexpr std::array<std::string_view, 2> kLoopMethods{"cycle", "changed"};
constexpr std::array<std::string_view, 5> kFunctions{"range", "namespace", "raise_exception",
                                                     "strftime_now", "dict"};

template <size_t N>
bool Has(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// An integer argument, or `otherwise` if it is missing or none.
int64_t IntArg(Interpreter& run, const CallArgs& args, size_t index, std::string_view name,
               int64_t otherwise) {
  const Value* value = args.Find(index, name);
  if (!value || value->is_none()) return otherwise;
  if (!value->is_integral()) {
    run.Fail(
        fmt::format("argument {} must be an integer and is a {}", index + 1, value->type_name()));
    return otherwise;
  }
  return value->as_int();
}

// A string argument, or null if it is missing or none.
const std::string* StringAt(Interpreter& run, const CallArgs& args, size_t index,
                            std::string_view name = "") {
  const Value* value = args.Find(index, name);
  if (!value || value->is_none()) return nullptr;
  if (!value->is_string()) {
    run.Fail(
        fmt::format("argument {} must be a string and is a {}", index + 1, value->type_name()));
    return nullptr;
  }
  return &value->as_string();
}

const std::string* WantString(Interpreter& run, const CallArgs& args, size_t index) {
  const std::string* text = StringAt(run, args, index);
  if (!text && !run.failed()) run.Fail(fmt::format("argument {} is missing", index + 1));
  return text;
}

Value ListOfStrings(Interpreter& run, std::vector<std::string> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) {
    items.push_back(run.NewString(std::move(part)));
    if (run.failed()) return Value();
  }
  return run.NewList(std::move(items));
}

// startswith() and endswith() take one string or a tuple of them.
Value Affix(Interpreter& run, const std::string& text, const CallArgs& args, bool start) {
  const Value* wanted = args.Find(0);
  if (!wanted) return run.Fail("argument 1 is missing");
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      run.Fail(fmt::format("argument 1 must be a string and is a {}", affix.type_name()));
      return false;
    }
    return start ? text.starts_with(affix.as_string()) : text.ends_with(affix.as_string());
  };
  if (!wanted->is_list()) return Value(matches(*wanted));
  const auto& affixes = wanted->as_list().items;
  if (!run.Charge(affixes.size())) return Value();
  return Value(std::any_of(affixes.begin(), affixes.end(), matches));
}

// A character test that holds for all of a string that is not empty.
template <typename Holds>
Value Every(Interpreter& run, std::string_view text, const Holds& holds) {
  if (!run.Charge(text.size() / 64)) return Value();
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = ReadUtf8(text, i);
    if (!holds(c.value)) return Value(false);
    i += c.bytes;
  }
  return Value(!text.empty());
}

// isupper() and islower(): some letter has this case and none the other.
Value HasCase(Interpreter& run, std::string_view text, uint16_t wanted, uint16_t other) {
  if (!run.Charge(text.size() / 64)) return Value();
  bool some = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = ReadUtf8(text, i);
    const uint16_t classes = ClassOf(c.value);
    if (classes & other) return Value(false);
    some = some || (classes & wanted);
    i += c.bytes;
  }
  return Value(some);
}

size_t FindLast(std::string_view text, std::string_view part) {
  size_t last = std::string_view::npos;
  for (size_t at = FindText(text, part); at != std::string_view::npos;
       at = FindText(text, part, at + 1)) {
    last = at;
    if (part.empty()) return text.size();
  }
  return last;
}

Value StringMethod(Interpreter& run, const std::string& text, std::string_view name,
                   const CallArgs& args) {
  if (!run.Charge(text.size() / 256)) return Value();
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const std::string* chars = StringAt(run, args, 0);
    if (run.failed() || !run.Charge(chars ? text.size() / 64 * (1 + chars->size() / 8) : 0))
      return Value();
    return run.NewString(std::string(Strip(text, chars, name != "rstrip", name != "lstrip")));
  }
  if (name == "split" || name == "rsplit") {
    const std::string* separator = StringAt(run, args, 0, "sep");
    const int64_t splits = IntArg(run, args, 1, "maxsplit", -1);
    if (run.failed()) return Value();
    if (separator && separator->empty()) return run.Fail("an empty separator");
    if (!run.ChargeSearch(text, separator ? std::string_view(*separator) : " ")) return Value();
    return ListOfStrings(run, SplitText(text, separator, splits, name == "rsplit"));
  }
  if (name == "splitlines") {
    const Value* keep = args.Find(0, "keepends");
    return ListOfStrings(run, SplitLines(text, keep && keep->Truth()));
  }
  if (name == "startswith" || name == "endswith")
    return Affix(run, text, args, name == "startswith");
  if (name == "upper") return run.NewString(ToUpper(text));
  if (name == "lower") return run.NewString(ToLower(text));
  if (name == "capitalize") return run.NewString(Capitalize(text));
  if (name == "title") return run.NewString(ToTitle(text, false));
  if (name == "isdigit") {
    return Every(run, text, [](char32_t c) { return (ClassOf(c) & kNumber) != 0; });
  }
  if (name == "isalpha") {
    return Every(run, text, [](char32_t c) { return (ClassOf(c) & kLetter) != 0; });
  }
  if (name == "isalnum") {
    return Every(run, text, [](char32_t c) { return (ClassOf(c) & (kLetter | kNumber)) != 0; });
  }
  if (name == "isspace") return Every(run, text, IsPythonSpace);
  if (name == "isupper") return HasCase(run, text, kUpper, kLower);
  if (name == "islower") return HasCase(run, text, kLower, kUpper);
  if (name == "join") {
    const Value* items = args.Find(0);
    if (!items) return run.Fail("argument 1 is missing");
    CallArgs separator;
    separator.by_position.push_back(Value(text));
    return run.ApplyFilter("join", *items, separator);
  }
  const std::string* part = WantString(run, args, 0);
  if (!part || !run.ChargeSearch(text, *part)) return Value();
  if (name == "replace") return run.ApplyFilter("replace", Value(text), args);
  if (name == "removeprefix") {
    return run.NewString(text.starts_with(*part) ? text.substr(part->size()) : text);
  }
  if (name == "removesuffix") {
    return run.NewString(text.ends_with(*part) ? text.substr(0, text.size() - part->size()) : text);
  }
  if (name == "count") {
    int64_t count = 0;
    if (part->empty()) return Value(static_cast<int64_t>(CountCodePoints(text)) + 1);
    for (size_t at = FindText(text, *part); at != std::string_view::npos;
         at = FindText(text, *part, at + part->size())) {
      ++count;
    }
    return Value(count);
  }
  if (name == "rfind" && !run.Charge(text.size() / 16)) return Value();
  const size_t at = name == "rfind" ? FindLast(text, *part) : FindText(text, *part);
  if (at != std::string_view::npos) {
    return Value(static_cast<int64_t>(CountCodePoints(std::string_view(text).substr(0, at))));
  }
  return name == "index" ? run.Fail("index() of a string that does not occur") : Value(int64_t{-1});
}

Value DictMethod(Interpreter& run, Dict& dict, std::string_view name, const CallArgs& args) {
  if (name == "items" || name == "keys" || name == "values") {
    std::vector<Value> items;
    if (!run.Charge(dict.members.size() * 2)) return Value();
    for (const auto& [key, value] : dict.members) {
      if (name == "items") {
        items.push_back(run.NewList({Value(key), value}, true));
      } else {
        items.push_back(name == "keys" ? Value(key) : value);
      }
    }
    return run.NewList(std::move(items));
  }
  if (name == "copy" || name == "update") {
    const Value* from = args.Find(0);
    Dict* to = name == "copy" ? run.heap().NewDict() : &dict;
    if (name == "copy") {
      if (!run.Charge(dict.members.size())) return Value();
      for (const auto& [key, value] : dict.members) to->Set(key, value);
      return Value(to);
    }
    if (from && !from->is_dict()) return run.Fail("update() needs a mapping");
    if (from) {
      const auto members = from->as_dict().members;
      if (!run.Charge(members.size())) return Value();
      for (const auto& [key, value] : members) to->Set(key, value);
    }
    for (const auto& [key, value] : args.by_name) to->Set(key, value);
    return Value(None{});
  }
  if (name == "clear") {
    dict = Dict{};
    return Value(None{});
  }
  const Value* key = args.Find(0);
  if (!key) return run.Fail("argument 1 is missing");
  const Value* found = key->is_string() ? dict.Find(key->as_string()) : nullptr;
  const Value* otherwise = args.Find(1, "default");
  if (name == "get") return found ? *found : otherwise ? *otherwise : Value(None{});
  if (name == "setdefault") {
    if (found) return *found;
    if (!key->is_string()) return run.Fail("the key of a mapping must be a string");
    const Value value = otherwise ? *otherwise : Value(None{});
    dict.Set(key->as_string(), value);
    return value;
  }
  if (!found) return otherwise ? *otherwise : run.Fail("pop() of a key that does not exist");
  const Value value = *found;
  if (!run.Charge(dict.members.size())) return Value();
  dict.Erase(key->as_string());
  return value;
}

Value ListMethod(Interpreter& run, List& list, std::string_view name, const CallArgs& args) {
  std::vector<Value>& items = list.items;
  if (list.tuple && name != "index" && name != "count")
    return run.Fail("a tuple cannot be changed");
  if (name == "clear") {
    items.clear();
    return Value(None{});
  }
  if (name == "copy") return run.NewList(items);
  if (name == "reverse") {
    if (!run.Charge(items.size())) return Value();
    std::reverse(items.begin(), items.end());
    return Value(None{});
  }
  if (name == "pop") {
    const auto count = static_cast<int64_t>(items.size());
    int64_t at = IntArg(run, args, 0, "", -1);
    if (run.failed()) return Value();
    if (at < 0) at += count;
    if (at < 0 || at >= count) return run.Fail("pop() of an element that does not exist");
    if (!run.Charge(static_cast<size_t>(count - at) / 8)) return Value();
    Value value = items[static_cast<size_t>(at)];
    items.erase(items.begin() + at);
    return value;
  }
  const Value* value = args.Find(0);
  if (!value) return run.Fail("argument 1 is missing");
  if (name == "append") {
    items.push_back(*value);
    return Value(None{});
  }
  if (name == "insert") {
    const auto count = static_cast<int64_t>(items.size());
    int64_t at = IntArg(run, args, 0, "", 0);
    const Value* inserted = args.Find(1);
    if (run.failed() || !run.Charge(items.size() / 8)) return Value();
    if (!inserted) return run.Fail("argument 2 is missing");
    if (at < 0) at = at < -count ? 0 : at + count;
    items.insert(items.begin() + std::min(at, count), *inserted);
    return Value(None{});
  }
  if (name == "extend") {
    const std::vector<Value> more = run.Iterate(*value);
    if (!run.Charge(more.size())) return Value();
    items.insert(items.end(), more.begin(), more.end());
    return Value(None{});
  }
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool equal = run.Equal(items[i], *value);
    if (run.failed()) return Value();
    if (equal && name == "index") return Value(static_cast<int64_t>(i));
    count += equal;
  }
  return name == "index" ? run.Fail("index() of an element that does not exist") : Value(count);
}

Value LoopMethod(Interpreter& run, Loop& loop, std::string_view name, const CallArgs& args) {
  if (name == "cycle") {
    if (args.by_position.empty()) return run.Fail("cycle() needs values");
    return args.by_position[loop.at % args.by_position.size()];
  }
  const Value now = run.NewList(args.by_position, true);
  if (run.failed()) return Value();
  const bool changed = !loop.has_changed || !run.Equal(loop.changed, now);
  loop.changed = now;
  loop.has_changed = true;
  return Value(changed);
}

Value Range(Interpreter& run, const CallArgs& args) {
  int64_t start = 0;
  int64_t stop = IntArg(run, args, 0, "", 0);
  const int64_t step = IntArg(run, args, 2, "", 1);
  if (args.by_position.size() > 1) {
    start = stop;
    stop = IntArg(run, args, 1, "", 0);
  }
  if (run.failed()) return Value();
  if (args.by_position.empty()) return run.Fail("range() needs a bound");
  if (step == 0) return run.Fail("the step of range() is 0");
  const auto distance =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > run.limits().range_max) {
    return run.Fail(fmt::format("a range of more than {} numbers", run.limits().range_max),
                    StatusCode::kExhausted);
  }
  if (!run.Charge(static_cast<size_t>(count))) return Value();
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) items.emplace_back(start + i * step);
  return run.NewList(std::move(items));
}

Value StrftimeNow(Interpreter& run, const CallArgs& args) {
  const std::string* format = WantString(run, args, 0);
  if (!format) return Value();
  constexpr size_t kFormatMax = 256;
  if (format->size() > kFormatMax || format->find('\0') != std::string::npos) {
    return run.Fail(fmt::format("a time format of more than {} bytes", kFormatMax));
  }
  std::array<char, 8192> buffer;
  // A blank in front tells an empty result from one that does not fit.
  const size_t size =
      std::strftime(buffer.data(), buffer.size(), (" " + *format).c_str(), &*run.now());
  if (size == 0) return run.Fail("the time does not fit its format");
  return run.NewString(std::string(buffer.data() + 1, size - 1));
}

}  // namespace

bool HasMethod(const Value& value, std::string_view name) {
  if (value.is_string()) return Has(kStringMethods, name);
  if (value.is_list()) return Has(kListMethods, name);
  if (value.is_dict()) return !value.as_dict().is_namespace && Has(kDictMethods, name);
  return value.is_loop() && Has(kLoopMethods, name);
}

bool IsFunction(std::string_view name) { return Has(kFunctions, name); }

Value Interpreter::CallMethod(const Value& self, const std::string& name, const CallArgs& args) {
  if (self.is_string()) return StringMethod(*this, self.as_string(), name, args);
  if (self.is_list()) return ListMethod(*this, self.as_list(), name, args);
  if (self.is_dict()) return DictMethod(*this, self.as_dict(), name, args);
  return LoopMethod(*this, self.as_loop(), name, args);
}

Value Interpreter::CallFunction(const std::string& name, const CallArgs& args) {
  if (name == "range") return Range(*this, args);
  if (name == "strftime_now") return StrftimeNow(*this, args);
  if (name == "raise_exception") {
    const Value* message = args.Find(0, "message");
    return Fail(fmt::format("the chat template refuses: {:.512}", message ? Print(*message) : ""));
  }
  Dict* dict = heap_.NewDict();
  dict->is_namespace = name == "namespace";
  if (const Value* from = args.Find(0)) {
    if (!from->is_dict()) return Fail(fmt::format("{}() needs a mapping", name));
    if (!Charge(from->as_dict().members.size())) return Value();
    for (const auto& [key, value] : from->as_dict().members) dict->Set(key, value);
  }
  for (const auto& [key, value] : args.by_name) dict->Set(key, value);
  return Value(dict);
}

}  // namespace weft::text::jinja
