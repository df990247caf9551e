// Statements, scopes and the budget; expressions are in evaluate.cc.
#include "text/jinja/interpreter.h"

#include <algorithm>

namespace weft::text::jinja {
namespace {

// Strings cost a step per this many bytes: a million steps are 128 MB of copies.
constexpr size_t kBytesPerStep = 128;

}  // namespace

const Value* CallArgs::Find(size_t index, std::string_view name) const {
  if (index < by_position.size()) return &by_position[index];
  for (const auto& [key, value] : by_name) {
    if (!name.empty() && key == name) return &value;
  }
  return nullptr;
}

Interpreter::Interpreter(const Template& tree, const Limits& limits, std::optional<std::tm> now)
    : tree_(tree), limits_(limits), now_(now) {}

Result<std::string> Interpreter::Run(const Json& context) {
  if (!context.is_object()) return Status::Invalid("the context of a template must be an object");
  globals_.assign(tree_.names.size(), Value());
  global_bound_.assign(tree_.names.size(), false);
  for (const auto& [name, json] : context.as_object()) {
    const auto known = std::find(tree_.names.begin(), tree_.names.end(), name);
    if (known == tree_.names.end()) continue;
    WEFT_ASSIGN_OR_RETURN(Value value, FromJson(json, heap_));
    Bind(static_cast<size_t>(known - tree_.names.begin()), std::move(value));
  }
  std::string out;
  out_ = &out;
  Exec(tree_.body);
  if (failed()) return error_;
  return out;
}

Value Interpreter::Fail(std::string_view what, StatusCode code) {
  if (error_.ok()) error_ = Status(code, fmt::format("template line {}: {}", line_, what));
  return Value();
}

bool Interpreter::Charge(size_t steps) {
  steps_ += static_cast<int64_t>(std::min<size_t>(steps, size_t{1} << 40));
  if (steps_ > limits_.steps_max) {
    Fail(fmt::format("the template takes more than {} steps", limits_.steps_max),
         StatusCode::kExhausted);
  }
  return !failed();
}

Value Interpreter::NewString(std::string text) {
  if (text.size() > limits_.output_bytes_max) {
    return Fail(
        fmt::format("a string of {} bytes; the limit is {}", text.size(), limits_.output_bytes_max),
        StatusCode::kExhausted);
  }
  if (!Charge(text.size() / kBytesPerStep)) return Value();
  return Value(std::move(text));
}

Value Interpreter::NewList(std::vector<Value> items, bool tuple) {
  if (!Charge(items.size())) return Value();
  return Value(heap_.NewList(std::move(items), tuple));
}

bool Interpreter::ChargeSearch(std::string_view whole, std::string_view part) {
  // The C library compares at most this many bytes at each place.
  constexpr size_t kComparedMax = 256;
  return Charge(whole.size() / 4096 * std::min(part.size(), kComparedMax) + whole.size() / 1024);
}

void Interpreter::Write(std::string_view text) {
  if (!Charge(text.size() / kBytesPerStep)) return;
  if (out_->size() + text.size() > limits_.output_bytes_max) {
    Fail(fmt::format("the output exceeds {} bytes", limits_.output_bytes_max),
         StatusCode::kExhausted);
    return;
  }
  *out_ += text;
}

std::string Interpreter::Capture(const Block& block) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  Exec(block);
  out_ = outer;
  return text;
}

void Interpreter::Bind(size_t name_id, Value value) {
  if (scopes_.size() == floor_ && floor_ == 0) {
    globals_[name_id] = std::move(value);
    global_bound_[name_id] = true;
    return;
  }
  Charge(scopes_.back().size() / 16);
  for (auto& [id, old] : scopes_.back()) {
    if (id == name_id) {
      old = std::move(value);
      return;
    }
  }
  scopes_.back().emplace_back(name_id, std::move(value));
}

void Interpreter::Assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const size_t id = target.name_ids[0];
    const Expr name{
        .kind = Expr::Kind::kName, .line = line_, .name = tree_.names[id], .name_id = id};
    const Value object = EvalName(name);
    if (!object.is_dict() || !object.as_dict().is_namespace) {
      Fail(fmt::format("'{}.{}' can be set only of a namespace", name.name, target.attribute));
      return;
    }
    if (!failed()) object.as_dict().Set(target.attribute, value);
    return;
  }
  if (target.name_ids.size() == 1) {
    Bind(target.name_ids[0], value);
    return;
  }
  const std::vector<Value> items = Iterate(value);
  if (failed()) return;
  if (items.size() != target.name_ids.size()) {
    Fail(fmt::format("{} values for {} names", items.size(), target.name_ids.size()));
    return;
  }
  for (size_t i = 0; i < items.size(); ++i) Bind(target.name_ids[i], items[i]);
}

Interpreter::Flow Interpreter::Exec(const Block& block) {
  for (const Stmt& stmt : block) {
    const Flow flow = Exec(stmt);
    if (failed() || flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::Exec(const Stmt& stmt) {
  line_ = stmt.line;
  if (!Charge(1)) return Flow::kNext;
  switch (stmt.kind) {
    case Stmt::Kind::kText: Write(stmt.text); return Flow::kNext;
    case Stmt::Kind::kPrint: {
      const Value value = Eval(*stmt.expr);
      if (failed()) return Flow::kNext;
      if (value.is_string()) {
        Write(value.as_string());
      } else {
        Write(Print(value));
      }
      return Flow::kNext;
    }
    case Stmt::Kind::kIf:
      for (const auto& [condition, body] : stmt.branches) {
        const bool holds = Eval(*condition).Truth();
        if (failed()) return Flow::kNext;
        if (holds) return Exec(body);
      }
      return Exec(stmt.otherwise);
    case Stmt::Kind::kFor: return ExecFor(stmt);
    case Stmt::Kind::kSet: {
      const Value value = Eval(*stmt.expr);
      if (!failed()) Assign(stmt.target, value);
      return Flow::kNext;
    }
    case Stmt::Kind::kSetBlock:
    case Stmt::Kind::kFilter: {
      scopes_.emplace_back();
      Value value = NewString(Capture(stmt.body));
      scopes_.pop_back();
      for (const Postfix& filter : stmt.filters) {
        if (!failed()) value = EvalStep(filter, value);
      }
      if (failed()) return Flow::kNext;
      if (stmt.kind == Stmt::Kind::kSetBlock) {
        Assign(stmt.target, value);
      } else {
        Write(Print(value));
      }
      return Flow::kNext;
    }
    case Stmt::Kind::kWith: {
      Scope scope;
      for (const auto& [target, expr] : stmt.bindings) {
        scope.emplace_back(target.name_ids[0], Eval(*expr));
      }
      scopes_.push_back(std::move(scope));
      const Flow flow = failed() ? Flow::kNext : Exec(stmt.body);
      scopes_.pop_back();
      return flow;
    }
    case Stmt::Kind::kScope: {
      scopes_.emplace_back();
      const Flow flow = Exec(stmt.body);
      scopes_.pop_back();
      return flow;
    }
    case Stmt::Kind::kMacro:
      Bind(stmt.name_id, Value(heap_.NewCallable({.kind = Callable::Kind::kMacro,
                                                  .name = stmt.macro->name,
                                                  .macro = stmt.macro.get(),
                                                  .self = {}})));
      return Flow::kNext;
    case Stmt::Kind::kBreak: return Flow::kBreak;
    case Stmt::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecFor(const Stmt& stmt) {
  std::vector<Value> items = Iterate(Eval(*stmt.expr));
  if (failed() || !Charge(items.size())) return Flow::kNext;
  if (stmt.condition) {
    // The filter sees the loop's names and not yet "loop".
    std::vector<Value> kept;
    for (const Value& item : items) {
      scopes_.emplace_back();
      Assign(stmt.target, item);
      const bool keep = !failed() && Eval(*stmt.condition).Truth();
      scopes_.pop_back();
      if (failed()) return Flow::kNext;
      if (keep) kept.push_back(item);
    }
    items = std::move(kept);
  }
  if (items.empty()) return Exec(stmt.otherwise);
  List* const list = heap_.NewList(std::move(items));
  Loop* const loop = heap_.NewLoop(&list->items);
  const size_t count = list->items.size();
  for (size_t i = 0; i < count; ++i) {
    if (!Charge(1)) break;
    loop->at = i;
    scopes_.emplace_back();
    Bind(kLoopName, Value(loop));
    Assign(stmt.target, list->items[i]);
    const Flow flow = failed() ? Flow::kBreak : Exec(stmt.body);
    scopes_.pop_back();
    if (failed() || flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Value Interpreter::CallMacro(const MacroNode& macro, const CallArgs& args) {
  if (macro_depth_ >= limits_.depth_max) {
    return Fail(fmt::format("macros call each other deeper than {} levels", limits_.depth_max),
                StatusCode::kExhausted);
  }
  if (args.by_position.size() > macro.parameters.size()) {
    return Fail(fmt::format("macro '{}' takes {} arguments", macro.name, macro.parameters.size()));
  }
  for (const auto& [name, value] : args.by_name) {
    const auto known = std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name);
    if (known == macro.parameter_names.end()) {
      return Fail(fmt::format("macro '{}' has no parameter '{:.64}'", macro.name, name));
    }
    if (static_cast<size_t>(known - macro.parameter_names.begin()) < args.by_position.size()) {
      return Fail(fmt::format("macro '{}' got '{:.64}' twice", macro.name, name));
    }
  }
  ++macro_depth_;
  const size_t floor = std::exchange(floor_, scopes_.size());
  const int line = line_;
  scopes_.emplace_back();
  for (size_t i = 0; i < macro.parameters.size() && !failed(); ++i) {
    const auto& [name_id, otherwise] = macro.parameters[i];
    const Value* given = args.Find(i, macro.parameter_names[i]);
    Bind(name_id, given       ? *given
                  : otherwise ? Eval(*otherwise)
                              : Value(Undefined{&macro.parameter_names[i]}));
  }
  std::string text = failed() ? std::string() : Capture(macro.body);
  scopes_.pop_back();
  floor_ = floor;
  line_ = line;
  --macro_depth_;
  return failed() ? Value() : NewString(std::move(text));
}

}  // namespace weft::text::jinja
