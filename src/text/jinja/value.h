// What an expression of a template can be.  A value is data: there is no attribute, method or
// function beyond those written in this folder, so that a template cannot reach anything else.
// Lists, dictionaries, loops and callables live in the Heap of one rendering, which also ends
// cycles (a list appended to itself); strings are shared and immutable.
// Thread: one rendering is one thread's; constants in the syntax tree are only read.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace weft::text::jinja {

struct List;
struct Dict;
struct Loop;
struct Callable;

struct Undefined {
  const std::string* name = nullptr;  // what was not found, in the syntax tree; for messages
};
struct None {};

class Value {
 public:
  Value() = default;                 // undefined
  Value(Undefined u) : value_(u) {}  // NOLINT(google-explicit-constructor)
  Value(None n) : value_(n) {}       // NOLINT(google-explicit-constructor)
  Value(bool b) : value_(b) {}       // NOLINT(google-explicit-constructor)
  Value(int64_t i) : value_(i) {}    // NOLINT(google-explicit-constructor)
  Value(double d) : value_(d) {}     // NOLINT(google-explicit-constructor)
  Value(std::string s)               // NOLINT(google-explicit-constructor)
      : value_(std::make_shared<const std::string>(std::move(s))) {}
  Value(List* l) : value_(l) {}      // NOLINT(google-explicit-constructor)
  Value(Dict* d) : value_(d) {}      // NOLINT(google-explicit-constructor)
  Value(Loop* l) : value_(l) {}      // NOLINT(google-explicit-constructor)
  Value(Callable* c) : value_(c) {}  // NOLINT(google-explicit-constructor)

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<Text>(value_); }
  bool is_list() const { return std::holds_alternative<List*>(value_); }
  bool is_dict() const { return std::holds_alternative<Dict*>(value_); }
  bool is_loop() const { return std::holds_alternative<Loop*>(value_); }
  bool is_callable() const { return std::holds_alternative<Callable*>(value_); }
  // As in Python, a boolean is an integer when one is asked for.
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integral() || is_double(); }

  // REQUIRES: the matching is_*().
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_int() const { return is_bool() ? as_bool() : std::get<int64_t>(value_); }
  double as_double() const {
    return is_double() ? std::get<double>(value_) : static_cast<double>(as_int());
  }
  const std::string& as_string() const { return *std::get<Text>(value_); }
  List& as_list() const { return *std::get<List*>(value_); }
  Dict& as_dict() const { return *std::get<Dict*>(value_); }
  Loop& as_loop() const { return *std::get<Loop*>(value_); }
  Callable& as_callable() const { return *std::get<Callable*>(value_); }
  // What the undefined value was called, or "value".
  std::string_view undefined_name() const {
    const std::string* name = std::get<Undefined>(value_).name;
    return name ? std::string_view(*name) : "value";
  }

  // "undefined", "none", "boolean", "integer", "number", "string", "list", "mapping", ...
  std::string_view type_name() const;
  bool Truth() const;

 private:
  using Text = std::shared_ptr<const std::string>;
  std::variant<Undefined, None, bool, int64_t, double, Text, List*, Dict*, Loop*, Callable*> value_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;  // prints with parentheses
};

// Keeps the order of insertion.
struct Dict {
  using Member = std::pair<std::string, Value>;
  std::vector<Member> members;
  bool is_namespace = false;

  const Value* Find(std::string_view key) const;
  void Set(std::string_view key, Value value);
  // True if there was such a member.
  bool Erase(std::string_view key);

 private:
  // Only of dictionaries with more members than one looks through at a glance.
  std::unordered_map<std::string, size_t> index_;
};

struct Loop {
  const std::vector<Value>* items;
  size_t at = 0;
  int64_t depth = 1;
  Value changed;  // last argument of loop.changed()
  bool has_changed = false;
};

struct MacroNode;

struct Callable {
  enum class Kind { kMacro, kFunction, kMethod } kind;
  std::string name;                  // of a function or method
  const MacroNode* macro = nullptr;  // of a macro
  Value self;                        // of a method
};

class Heap {
 public:
  List* NewList(std::vector<Value> items = {}, bool tuple = false) {
    lists_.push_back({std::move(items), tuple});
    return &lists_.back();
  }
  Dict* NewDict() { return &dicts_.emplace_back(); }
  Loop* NewLoop(const std::vector<Value>* items) {
    return &loops_.emplace_back(Loop{.items = items});
  }
  Callable* NewCallable(Callable callable) { return &callables_.emplace_back(std::move(callable)); }

 private:
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Loop> loops_;
  std::deque<Callable> callables_;
};

// Json as values.  Errors: kInvalid when nested deeper than depth_max.
Result<Value> FromJson(const Json& json, Heap& heap, int depth_max = 64);

}  // namespace weft::text::jinja
