// The arithmetic operators, as Python defines them, but for integers beyond 64 bits, which fail.
#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"

namespace weft::text::jinja {

Value Interpreter::Arithmetic(Op op, const Value& a, const Value& b) {
  constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**", "~"};
  const auto mismatch = [&] {
    for (const Value* v : {&a, &b}) {
      if (v->is_undefined()) return Fail(fmt::format("'{:.64}' is undefined", v->undefined_name()));
    }
    return Fail(fmt::format("{} {} {} is not possible", a.type_name(),
                            kSigns[static_cast<size_t>(op)], b.type_name()));
  };
  if (op == Op::kAdd && a.is_string() && b.is_string()) {
    if (a.as_string().size() + b.as_string().size() > limits_.output_bytes_max) {
      return Fail(fmt::format("a string longer than {} bytes", limits_.output_bytes_max),
                  StatusCode::kExhausted);
    }
    return NewString(a.as_string() + b.as_string());
  }
  if (op == Op::kAdd && a.is_list() && b.is_list() && a.as_list().tuple == b.as_list().tuple) {
    std::vector<Value> items = a.as_list().items;
    items.insert(items.end(), b.as_list().items.begin(), b.as_list().items.end());
    return NewList(std::move(items), a.as_list().tuple);
  }
  if (op == Op::kMultiply && (a.is_string() || a.is_list()) && b.is_integral()) {
    const auto times = static_cast<size_t>(std::max<int64_t>(b.as_int(), 0));
    const size_t unit = a.is_string() ? a.as_string().size() : a.as_list().items.size();
    if (unit > 0 && times > limits_.output_bytes_max / unit) {
      return Fail(fmt::format("a repetition beyond {} elements", limits_.output_bytes_max),
                  StatusCode::kExhausted);
    }
    if (!Charge(a.is_string() ? times / 16 : unit * times)) return Value();
    std::string text;
    std::vector<Value> items;
    for (size_t i = 0; i < times; ++i) {
      if (a.is_string()) {
        text += a.as_string();
      } else {
        items.insert(items.end(), a.as_list().items.begin(), a.as_list().items.end());
      }
    }
    return a.is_string() ? NewString(std::move(text))
                         : NewList(std::move(items), a.as_list().tuple);
  }
  if (op == Op::kMultiply && a.is_integral() && (b.is_string() || b.is_list())) {
    return Arithmetic(op, b, a);
  }
  if (!a.is_number() || !b.is_number()) return mismatch();
  if (op == Op::kDivide || a.is_double() || b.is_double()) {
    const double x = a.as_double();
    const double y = b.as_double();
    switch (op) {
      case Op::kAdd: return Value(x + y);
      case Op::kSubtract: return Value(x - y);
      case Op::kMultiply: return Value(x * y);
      case Op::kPower: return Value(std::pow(x, y));
      default: break;
    }
    if (y == 0) return Fail("division by zero");
    if (op == Op::kDivide) return Value(x / y);
    if (op == Op::kFloorDivide) return Value(std::floor(x / y));
    const double rest = std::fmod(x, y);
    return Value(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
  }
  const int64_t x = a.as_int();
  const int64_t y = b.as_int();
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd: overflow = __builtin_add_overflow(x, y, &result); break;
    case Op::kSubtract: overflow = __builtin_sub_overflow(x, y, &result); break;
    case Op::kMultiply: overflow = __builtin_mul_overflow(x, y, &result); break;
    case Op::kFloorDivide:
    case Op::kModulo: {
      if (y == 0) return Fail("division by zero");
      if (y == -1) {  // the one quotient that can overflow
        overflow = op == Op::kFloorDivide && __builtin_sub_overflow(int64_t{0}, x, &result);
        break;
      }
      const int64_t rest = x % y;
      const bool round = rest != 0 && (rest < 0) != (y < 0);
      result = op == Op::kModulo ? (round ? rest + y : rest) : x / y - (round ? 1 : 0);
      break;
    }
    case Op::kPower: {
      if (y < 0) return Value(std::pow(static_cast<double>(x), static_cast<double>(y)));
      result = 1;
      if (x == 0 || x == 1) {
        result = y == 0 ? 1 : x;
      } else if (x == -1) {
        result = y % 2 ? -1 : 1;
      } else {
        for (int64_t i = 0; i < y && !overflow; ++i)
          overflow = __builtin_mul_overflow(result, x, &result);
      }
      break;
    }
    default: return mismatch();
  }
  if (overflow) return Fail("an integer beyond 64 bits");
  return Value(result);
}

}  // namespace weft::text::jinja
