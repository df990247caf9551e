// Expressions.
#include <algorithm>
#include <limits>

#include "text/jinja/interpreter.h"
#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

// Of one expression in another, calls included; each level takes well under 1 KiB of stack.
constexpr int kEvalDepthMax = 1000;

// Byte offset of each code point of valid UTF-8, and the end.
std::vector<size_t> Offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace

Value Interpreter::Eval(const Expr& expr) {
  if (!Charge(1)) return Value();
  if (depth_ >= kEvalDepthMax) {
    return Fail(fmt::format("expressions nest deeper than {} levels", kEvalDepthMax),
                StatusCode::kExhausted);
  }
  struct Level {
    int& depth;
    explicit Level(int& d) : depth(++d) {}
    ~Level() { --depth; }
  } level(depth_);
  switch (expr.kind) {
    case Expr::Kind::kConstant: return expr.constant;
    case Expr::Kind::kName: return EvalName(expr);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple: {
      std::vector<Value> items;
      items.reserve(expr.parts.size());
      for (const ExprPtr& part : expr.parts) {
        items.push_back(Eval(*part));
        if (failed()) return Value();
      }
      return NewList(std::move(items), expr.kind == Expr::Kind::kTuple);
    }
    case Expr::Kind::kDict: return EvalDict(expr);
    case Expr::Kind::kNot: {
      const bool truth = Eval(*expr.parts[0]).Truth();
      return failed() ? Value() : Value(!truth);
    }
    case Expr::Kind::kNegate: {
      const Value value = Eval(*expr.parts[0]);
      if (failed()) return Value();
      if (value.is_double()) return Value(-value.as_double());
      return Arithmetic(Op::kSubtract, Value(int64_t{0}), value);
    }
    case Expr::Kind::kPlus: {
      const Value value = Eval(*expr.parts[0]);
      if (failed()) return Value();
      if (value.is_double()) return value;
      return Arithmetic(Op::kAdd, Value(int64_t{0}), value);
    }
    case Expr::Kind::kArithmetic: {
      if (expr.ops[0] == Op::kConcat) {
        std::string text;
        for (const ExprPtr& part : expr.parts) {
          const Value value = Eval(*part);
          if (failed()) return Value();
          text += value.is_string() ? value.as_string() : Print(value);
          if (text.size() > limits_.output_bytes_max) break;
        }
        return NewString(std::move(text));
      }
      Value value = Eval(*expr.parts[0]);
      for (size_t i = 0; i < expr.ops.size() && !failed(); ++i) {
        const Value right = Eval(*expr.parts[i + 1]);
        if (!failed()) value = Arithmetic(expr.ops[i], value, right);
      }
      return value;
    }
    case Expr::Kind::kCompare: return EvalCompare(expr);
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr: {
      Value value;
      for (const ExprPtr& part : expr.parts) {
        value = Eval(*part);
        if (failed() || value.Truth() == (expr.kind == Expr::Kind::kOr)) break;
      }
      return value;
    }
    case Expr::Kind::kConditional: {
      const bool holds = Eval(*expr.parts[1]).Truth();
      if (failed()) return Value();
      if (holds) return Eval(*expr.parts[0]);
      return expr.parts.size() > 2 ? Eval(*expr.parts[2]) : Value();
    }
    case Expr::Kind::kPostfix: {
      Value value = Eval(*expr.parts[0]);
      for (const Postfix& step : expr.steps) {
        if (failed()) return Value();
        line_ = expr.line;
        value = EvalStep(step, value);
      }
      return value;
    }
  }
  return Value();
}

Value Interpreter::EvalName(const Expr& expr) {
  for (size_t i = scopes_.size(); i-- > floor_;) {
    if (!Charge(scopes_[i].size() / 16)) return Value();
    for (const auto& [id, value] : scopes_[i]) {
      if (id == expr.name_id) return value;
    }
  }
  if (global_bound_[expr.name_id]) return globals_[expr.name_id];
  if (IsFunction(expr.name) && (expr.name != "strftime_now" || now_)) {
    return Value(heap_.NewCallable(
        {.kind = Callable::Kind::kFunction, .name = expr.name, .macro = nullptr, .self = {}}));
  }
  return Value(Undefined{&tree_.names[expr.name_id]});
}

Value Interpreter::EvalDict(const Expr& expr) {
  Dict* dict = heap_.NewDict();
  for (size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    const Value key = Eval(*expr.parts[i]);
    if (failed()) return Value();
    if (!key.is_string()) return Fail(fmt::format("a {} as the key of a mapping", key.type_name()));
    Value value = Eval(*expr.parts[i + 1]);
    if (failed()) return Value();
    dict->Set(key.as_string(), std::move(value));
  }
  return Value(dict);
}

Value Interpreter::EvalCompare(const Expr& expr) {
  Value left = Eval(*expr.parts[0]);
  for (size_t i = 0; i < expr.ops.size() && !failed(); ++i) {
    Value right = Eval(*expr.parts[i + 1]);
    if (failed()) break;
    bool holds = false;
    switch (expr.ops[i]) {
      case Op::kEqual: holds = Equal(left, right); break;
      case Op::kNotEqual: holds = !Equal(left, right); break;
      case Op::kIn: holds = Contains(right, left); break;
      case Op::kNotIn: holds = !Contains(right, left); break;
      case Op::kLess: holds = Compare(left, right) < 0; break;
      case Op::kLessEqual: holds = Compare(left, right) <= 0; break;
      case Op::kGreater: holds = Compare(left, right) > 0; break;
      default: holds = Compare(left, right) >= 0; break;
    }
    if (failed()) break;
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return failed() ? Value() : Value(true);
}

CallArgs Interpreter::EvalArgs(const std::vector<Argument>& args) {
  CallArgs out;
  for (const Argument& arg : args) {
    Value value = Eval(*arg.value);
    if (failed()) break;
    if (arg.name.empty()) {
      out.by_position.push_back(std::move(value));
    } else {
      out.by_name.emplace_back(arg.name, std::move(value));
    }
  }
  return out;
}

Value Interpreter::EvalStep(const Postfix& step, const Value& base) {
  if (!Charge(1)) return Value();
  switch (step.kind) {
    case Postfix::Kind::kAttribute: {
      Value value = Attribute(base, step.name);
      return value.is_undefined() ? Value(Undefined{&step.name}) : value;
    }
    case Postfix::Kind::kItem: {
      const Value key = Eval(*step.item);
      return failed() ? Value() : Item(base, key);
    }
    case Postfix::Kind::kSlice: return Slice(step, base);
    case Postfix::Kind::kCall: {
      const CallArgs args = EvalArgs(step.args);
      return failed() ? Value() : Call(base, args);
    }
    case Postfix::Kind::kFilter: {
      const CallArgs args = EvalArgs(step.args);
      return failed() ? Value() : ApplyFilter(step.name, base, args);
    }
    case Postfix::Kind::kTest: {
      const CallArgs args = EvalArgs(step.args);
      if (failed()) return Value();
      const bool holds = ApplyTest(step.name, base, args);
      return failed() ? Value() : Value(holds != step.negated);
    }
  }
  return Value();
}

Value Interpreter::Attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) {
    return Fail(
        fmt::format("'{:.64}' is undefined, so it has no '{:.64}'", value.undefined_name(), name));
  }
  if (name.starts_with("__")) return Fail(fmt::format("'{:.64}' is not accessible", name));
  if (value.is_loop()) {
    const Loop& loop = value.as_loop();
    const auto count = static_cast<int64_t>(loop.items->size());
    const auto at = static_cast<int64_t>(loop.at);
    if (name == "index") return Value(at + 1);
    if (name == "index0") return Value(at);
    if (name == "revindex") return Value(count - at);
    if (name == "revindex0") return Value(count - at - 1);
    if (name == "first") return Value(at == 0);
    if (name == "last") return Value(at + 1 == count);
    if (name == "length") return Value(count);
    if (name == "depth") return Value(loop.depth);
    if (name == "depth0") return Value(loop.depth - 1);
    if (name == "previtem") return at > 0 ? (*loop.items)[loop.at - 1] : Value();
    if (name == "nextitem") return at + 1 < count ? (*loop.items)[loop.at + 1] : Value();
  }
  if (value.is_dict() && value.as_dict().is_namespace) {
    const Value* found = value.as_dict().Find(name);
    return found ? *found : Value();
  }
  // A method hides a member of the same name, as in Python; x["items"] reaches the member.
  if (HasMethod(value, name)) {
    return Value(heap_.NewCallable(
        {.kind = Callable::Kind::kMethod, .name = name, .macro = nullptr, .self = value}));
  }
  if (value.is_dict()) {
    if (const Value* found = value.as_dict().Find(name)) return *found;
  }
  return Value();
}

Value Interpreter::Item(const Value& value, const Value& key) {
  if (value.is_undefined()) {
    return Fail(
        fmt::format("'{:.64}' is undefined, so it has no elements", value.undefined_name()));
  }
  if (value.is_dict() && key.is_string()) {
    if (const Value* found = value.as_dict().Find(key.as_string())) return *found;
  }
  if (key.is_integral() && (value.is_list() || value.is_string())) {
    int64_t at = key.as_int();
    if (value.is_list()) {
      const auto& items = value.as_list().items;
      if (at < 0) at += static_cast<int64_t>(items.size());
      return at >= 0 && at < static_cast<int64_t>(items.size()) ? items[static_cast<size_t>(at)]
                                                                : Value();
    }
    const std::string& text = value.as_string();
    if (!Charge(text.size() / 64)) return Value();
    const std::vector<size_t> offsets = Offsets(text);
    const auto count = static_cast<int64_t>(offsets.size()) - 1;
    if (at < 0) at += count;
    if (at < 0 || at >= count) return Value();
    const size_t begin = offsets[static_cast<size_t>(at)];
    return NewString(text.substr(begin, offsets[static_cast<size_t>(at) + 1] - begin));
  }
  if (key.is_string()) return Attribute(value, key.as_string());
  return Value();
}

Value Interpreter::Slice(const Postfix& step, const Value& base) {
  const auto bound = [&](const ExprPtr& expr, std::optional<int64_t>& out) {
    if (!expr || failed()) return;
    const Value value = Eval(*expr);
    if (failed() || value.is_none()) return;
    if (!value.is_integral()) {
      Fail(fmt::format("a slice bound is a {}", value.type_name()));
    } else {
      out = value.as_int();
    }
  };
  std::optional<int64_t> start, stop, by;
  bound(step.start, start);
  bound(step.stop, stop);
  bound(step.step, by);
  if (failed()) return Value();
  if (!base.is_list() && !base.is_string()) {
    return Fail(fmt::format("a {} has no slices", base.type_name()));
  }
  std::vector<size_t> offsets;
  if (base.is_string()) {
    if (!Charge(base.as_string().size() / 64)) return Value();
    offsets = Offsets(base.as_string());
  }
  const int64_t count = base.is_list() ? static_cast<int64_t>(base.as_list().items.size())
                                       : static_cast<int64_t>(offsets.size()) - 1;
  const int64_t stride = std::clamp<int64_t>(by.value_or(1), -count - 1, count + 1);
  if (stride == 0) return Fail("the step of a slice is 0");
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? count : count - 1;
  const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    const int64_t from_start =
        *at < 0 ? (*at < -count ? std::numeric_limits<int64_t>::min() / 2 : *at + count) : *at;
    return std::clamp(from_start, low, high);
  };
  const int64_t from = place(start, stride > 0 ? low : high);
  const int64_t to = place(stop, stride > 0 ? high : low);
  if (base.is_string() && stride == 1) {
    const size_t begin = offsets[static_cast<size_t>(from)];
    return NewString(to > from
                         ? base.as_string().substr(begin, offsets[static_cast<size_t>(to)] - begin)
                         : std::string());
  }
  std::vector<Value> items;
  std::string text;
  for (int64_t i = from; stride > 0 ? i < to : i > to; i += stride) {
    const auto at = static_cast<size_t>(i);
    if (base.is_list()) {
      items.push_back(base.as_list().items[at]);
    } else {
      text.append(base.as_string(), offsets[at], offsets[at + 1] - offsets[at]);
    }
  }
  return base.is_list() ? NewList(std::move(items), base.as_list().tuple)
                        : NewString(std::move(text));
}

Value Interpreter::Call(const Value& callee, const CallArgs& args) {
  if (callee.is_undefined()) {
    return Fail(fmt::format("'{:.64}' is undefined and cannot be called", callee.undefined_name()));
  }
  if (!callee.is_callable()) return Fail(fmt::format("a {} cannot be called", callee.type_name()));
  if (!Charge(1)) return Value();
  const Callable& callable = callee.as_callable();
  switch (callable.kind) {
    case Callable::Kind::kMacro: return CallMacro(*callable.macro, args);
    case Callable::Kind::kFunction: return CallFunction(callable.name, args);
    case Callable::Kind::kMethod: return CallMethod(callable.self, callable.name, args);
  }
  return Value();
}

}  // namespace weft::text::jinja
