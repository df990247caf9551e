// The tests: `value is name(args)`.
#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

struct Test {
  std::string_view name;
  bool (*holds)(Interpreter& run, const Value& value, const Value& arg);
  bool takes_arg = false;
};

bool Remainder(Interpreter& run, const Value& value, int64_t by, int64_t rest) {
  const Value r = run.Arithmetic(Op::kModulo, value, Value(by));
  return !run.failed() && r.is_number() && r.as_double() == static_cast<double>(rest);
}

constexpr Test kTests[] = {
    {"defined", [](Interpreter&, const Value& v, const Value&) { return !v.is_undefined(); }},
    {"undefined", [](Interpreter&, const Value& v, const Value&) { return v.is_undefined(); }},
    {"none", [](Interpreter&, const Value& v, const Value&) { return v.is_none(); }},
    {"string", [](Interpreter&, const Value& v, const Value&) { return v.is_string(); }},
    {"mapping", [](Interpreter&, const Value& v,
                   const Value&) { return v.is_dict() && !v.as_dict().is_namespace; }},
    {"iterable",
     [](Interpreter&, const Value& v, const Value&) {
       return v.is_string() || v.is_list() || v.is_undefined() ||
              (v.is_dict() && !v.as_dict().is_namespace);
     }},
    {"sequence",
     [](Interpreter&, const Value& v, const Value&) {
       return v.is_string() || v.is_list() || v.is_undefined() ||
              (v.is_dict() && !v.as_dict().is_namespace);
     }},
    {"number", [](Interpreter&, const Value& v, const Value&) { return v.is_number(); }},
    {"integer", [](Interpreter&, const Value& v, const Value&) { return v.is_int(); }},
    {"float", [](Interpreter&, const Value& v, const Value&) { return v.is_double(); }},
    {"boolean", [](Interpreter&, const Value& v, const Value&) { return v.is_bool(); }},
    {"true", [](Interpreter&, const Value& v, const Value&) { return v.is_bool() && v.as_bool(); }},
    {"false",
     [](Interpreter&, const Value& v, const Value&) { return v.is_bool() && !v.as_bool(); }},
    {"callable", [](Interpreter&, const Value& v, const Value&) { return v.is_callable(); }},
    {"odd", [](Interpreter& r, const Value& v, const Value&) { return Remainder(r, v, 2, 1); }},
    {"even", [](Interpreter& r, const Value& v, const Value&) { return Remainder(r, v, 2, 0); }},
    {"divisibleby",
     [](Interpreter& r, const Value& v, const Value& arg) {
       const Value rest = r.Arithmetic(Op::kModulo, v, arg);
       return !r.failed() && rest.as_double() == 0;
     },
     true},
    {"upper",
     [](Interpreter& r, const Value& v, const Value&) {
       const std::string text = r.Print(v);
       return r.Charge(text.size() / 64) && ToUpper(text) == text && ToLower(text) != text;
     }},
    {"lower",
     [](Interpreter& r, const Value& v, const Value&) {
       const std::string text = r.Print(v);
       return r.Charge(text.size() / 64) && ToLower(text) == text && ToUpper(text) != text;
     }},
    {"filter", [](Interpreter&, const Value& v,
                  const Value&) { return v.is_string() && IsFilter(v.as_string()); }},
    {"sameas",
     [](Interpreter& r, const Value& v, const Value& arg) {
       return v.type_name() == arg.type_name() && r.Equal(v, arg);
     },
     true},
    {"equalto", [](Interpreter& r, const Value& v, const Value& arg) { return r.Equal(v, arg); },
     true},
    {"eq", [](Interpreter& r, const Value& v, const Value& arg) { return r.Equal(v, arg); }, true},
    {"ne", [](Interpreter& r, const Value& v, const Value& arg) { return !r.Equal(v, arg); }, true},
    {"lt", [](Interpreter& r, const Value& v, const Value& arg) { return r.Compare(v, arg) < 0; },
     true},
    {"lessthan",
     [](Interpreter& r, const Value& v, const Value& arg) { return r.Compare(v, arg) < 0; }, true},
    {"le", [](Interpreter& r, const Value& v, const Value& arg) { return r.Compare(v, arg) <= 0; },
     true},
    {"gt", [](Interpreter& r, const Value& v, const Value& arg) { return r.Compare(v, arg) > 0; },
     true},
    {"greaterthan",
     [](Interpreter& r, const Value& v, const Value& arg) { return r.Compare(v, arg) > 0; }, true},
    {"ge", [](Interpreter& r, const Value& v, const Value& arg) { return r.Compare(v, arg) >= 0; },
     true},
    {"in", [](Interpreter& r, const Value& v, const Value& arg) { return r.Contains(arg, v); },
     true},
};

// The operators are names of tests too, as in select("==", 3).
constexpr std::pair<std::string_view, std::string_view> kOperators[] = {
    {"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {"<=", "le"}, {">", "gt"}, {">=", "ge"}};

}  // namespace

bool Interpreter::ApplyTest(std::string_view name, const Value& value, const CallArgs& args) {
  if (!Charge(1)) return false;
  for (const auto& [op, test] : kOperators) {
    if (name == op) name = test;
  }
  for (const Test& test : kTests) {
    if (test.name != name) continue;
    const Value* arg = args.Find(0);
    if (test.takes_arg != (arg != nullptr)) {
      Fail(fmt::format("the test '{}' takes {} argument", name, test.takes_arg ? "one" : "no"));
      return false;
    }
    return test.holds(*this, value, arg ? *arg : Value());
  }
  Fail(fmt::format("there is no test '{:.64}'", name));
  return false;
}

bool IsTest(std::string_view name) {
  return std::any_of(std::begin(kTests), std::end(kTests),
                     [&](const Test& test) { return test.name == name; });
}

}  // namespace weft::text::jinja
