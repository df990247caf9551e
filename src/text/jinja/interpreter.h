// Runs a template's tree over values, within a budget.
// Thread: one rendering is one thread's; the tree is only read.
// Errors: the first one is kept and everything unwinds; a message names the line.  What the
// template itself refuses by raise_exception() is kInvalid, an exceeded limit kExhausted.
// Invariant: every value that is made is paid for in steps, so that steps bound time and memory.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace weft::text::jinja {

struct Limits {
  int64_t steps_max = 1'000'000;
  size_t output_bytes_max = 8 << 20;  // of the output and of any one string
  int depth_max = 64;                 // of macro calls, of printed values
  int64_t range_max = 100'000;
};

struct CallArgs {
  std::vector<Value> by_position;
  std::vector<std::pair<std::string_view, Value>> by_name;

  // The argument at `index` or called `name`, or null.
  const Value* Find(size_t index, std::string_view name = "") const;
};

class Interpreter {
 public:
  Interpreter(const Template& tree, const Limits& limits, std::optional<std::tm> now);

  // The context is an object; its members are the template's global names.
  Result<std::string> Run(const Json& context);

  // --- for filters, tests, methods and functions ---

  // Keeps the first error; returns undefined, for "return run.Fail(..)".
  Value Fail(std::string_view what, StatusCode code = StatusCode::kInvalid);
  bool failed() const { return !error_.ok(); }
  // Pays for work; false and an error when the budget is used up.
  bool Charge(size_t steps);
  // Pays for looking for `part` in `whole` once, whatever they are made of.
  bool ChargeSearch(std::string_view whole, std::string_view part);
  // A string that is paid for by its length.
  Value NewString(std::string text);
  Value NewList(std::vector<Value> items, bool tuple = false);
  Heap& heap() { return heap_; }
  const Limits& limits() const { return limits_; }
  const std::optional<std::tm>& now() const { return now_; }

  // As `{{ value }}` prints it.
  std::string Print(const Value& value);
  // As Python's repr().
  void AppendRepr(const Value& value, std::string& out, int depth = 0);
  bool Equal(const Value& a, const Value& b, int depth = 0);
  // <0, 0, >0; fails for kinds that have no order.
  int Compare(const Value& a, const Value& b, int depth = 0);
  bool Contains(const Value& whole, const Value& part);
  // The elements that a loop over `value` takes.
  std::vector<Value> Iterate(const Value& value);
  Value Arithmetic(Op op, const Value& a, const Value& b);
  // value.name and value[key].
  Value Attribute(const Value& value, const std::string& name);
  Value Item(const Value& value, const Value& key);
  Value Call(const Value& callee, const CallArgs& args);
  Value ApplyFilter(std::string_view name, const Value& value, const CallArgs& args);
  bool ApplyTest(std::string_view name, const Value& value, const CallArgs& args);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using Scope = std::vector<std::pair<size_t, Value>>;

  Flow Exec(const Block& block);
  Flow Exec(const Stmt& stmt);
  Flow ExecFor(const Stmt& stmt);
  std::string Capture(const Block& block);
  void Assign(const Target& target, const Value& value);
  void Bind(size_t name_id, Value value);
  void Write(std::string_view text);

  Value Eval(const Expr& expr);
  Value EvalName(const Expr& expr);
  Value EvalDict(const Expr& expr);
  Value EvalCompare(const Expr& expr);
  Value EvalStep(const Postfix& step, const Value& base);
  Value Slice(const Postfix& step, const Value& base);
  CallArgs EvalArgs(const std::vector<Argument>& args);
  Value CallMacro(const MacroNode& macro, const CallArgs& args);
  Value CallFunction(const std::string& name, const CallArgs& args);
  Value CallMethod(const Value& self, const std::string& name, const CallArgs& args);

  const Template& tree_;
  const Limits limits_;
  const std::optional<std::tm> now_;
  Heap heap_;
  std::vector<Value> globals_;      // by name_id
  std::vector<bool> global_bound_;  // by name_id
  std::vector<Scope> scopes_;
  size_t floor_ = 0;  // scopes below it belong to callers
  std::string* out_ = nullptr;
  int64_t steps_ = 0;
  int depth_ = 0;  // of evaluation
  int macro_depth_ = 0;
  int line_ = 0;
  Status error_;
};

// Whether value.name is a method that CallMethod() knows.
bool HasMethod(const Value& value, std::string_view name);
bool IsFunction(std::string_view name);
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

}  // namespace weft::text::jinja
