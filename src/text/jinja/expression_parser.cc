#include "text/jinja/expression_parser.h"

#include <charconv>
#include <cmath>

#include "text/jinja/interpreter.h"

namespace weft::text::jinja {

using Level = TokenReader::Level;

ExprPtr ExpressionParser::New(Expr::Kind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = reader_.Peek().line;
  return expr;
}

ExprPtr ExpressionParser::Expression() {
  const Level level(reader_);
  ExprPtr value = Or();
  if (reader_.TakeName("if")) {
    ExprPtr conditional = New(Expr::Kind::kConditional);
    conditional->parts.push_back(std::move(value));
    conditional->parts.push_back(Or());
    if (reader_.TakeName("else")) conditional->parts.push_back(Expression());
    value = std::move(conditional);
  }
  return value;
}

ExprPtr ExpressionParser::ExpressionOrTuple() {
  ExprPtr first = Expression();
  if (!reader_.Peek().IsOperator(",")) return first;
  ExprPtr tuple = New(Expr::Kind::kTuple);
  tuple->parts.push_back(std::move(first));
  while (reader_.TakeOperator(",")) {
    if (reader_.Peek().kind == TokenKind::kBlockEnd ||
        reader_.Peek().kind == TokenKind::kPrintEnd || reader_.Peek().IsOperator(")")) {
      break;
    }
    tuple->parts.push_back(Expression());
  }
  return tuple;
}

ExprPtr ExpressionParser::Or() {
  ExprPtr first = And();
  if (!reader_.Peek().IsName("or")) return first;
  ExprPtr all = New(Expr::Kind::kOr);
  all->parts.push_back(std::move(first));
  while (reader_.TakeName("or")) all->parts.push_back(And());
  return all;
}

ExprPtr ExpressionParser::And() {
  ExprPtr first = Not();
  if (!reader_.Peek().IsName("and")) return first;
  ExprPtr all = New(Expr::Kind::kAnd);
  all->parts.push_back(std::move(first));
  while (reader_.TakeName("and")) all->parts.push_back(Not());
  return all;
}

ExprPtr ExpressionParser::Not() {
  if (!reader_.Peek().IsName("not")) return Compare();
  const Level level(reader_);
  ExprPtr negation = New(Expr::Kind::kNot);
  reader_.Take();
  negation->parts.push_back(Not());
  return negation;
}

ExprPtr ExpressionParser::Compare() {
  constexpr std::pair<std::string_view, Op> kOperators[] = {
      {"==", Op::kEqual},     {"!=", Op::kNotEqual}, {"<", Op::kLess},
      {"<=", Op::kLessEqual}, {">", Op::kGreater},   {">=", Op::kGreaterEqual},
  };
  const auto take = [&](Op& op) {
    for (const auto& [text, known] : kOperators) {
      if (reader_.TakeOperator(text)) {
        op = known;
        return true;
      }
    }
    if (reader_.TakeName("in")) {
      op = Op::kIn;
      return true;
    }
    if (reader_.Peek().IsName("not") && reader_.PeekNext().IsName("in")) {
      reader_.Take();
      reader_.Take();
      op = Op::kNotIn;
      return true;
    }
    return false;
  };
  ExprPtr first = Sum();
  Op op{};
  if (!take(op)) return first;
  ExprPtr chain = New(Expr::Kind::kCompare);
  chain->parts.push_back(std::move(first));
  do {
    chain->ops.push_back(op);
    chain->parts.push_back(Sum());
  } while (take(op));
  return chain;
}

ExprPtr ExpressionParser::Sum() {
  ExprPtr first = Concat();
  if (!reader_.Peek().IsOperator("+") && !reader_.Peek().IsOperator("-")) return first;
  ExprPtr chain = New(Expr::Kind::kArithmetic);
  chain->parts.push_back(std::move(first));
  while (reader_.Peek().IsOperator("+") || reader_.Peek().IsOperator("-")) {
    chain->ops.push_back(reader_.Take().text == "+" ? Op::kAdd : Op::kSubtract);
    chain->parts.push_back(Concat());
  }
  return chain;
}

ExprPtr ExpressionParser::Concat() {
  ExprPtr first = Product();
  if (!reader_.Peek().IsOperator("~")) return first;
  ExprPtr chain = New(Expr::Kind::kArithmetic);
  chain->parts.push_back(std::move(first));
  while (reader_.TakeOperator("~")) {
    chain->ops.push_back(Op::kConcat);
    chain->parts.push_back(Product());
  }
  return chain;
}

ExprPtr ExpressionParser::Product() {
  constexpr std::pair<std::string_view, Op> kOperators[] = {
      {"*", Op::kMultiply}, {"/", Op::kDivide}, {"//", Op::kFloorDivide}, {"%", Op::kModulo}};
  ExprPtr chain;
  ExprPtr first = Power();
  for (bool more = true; more;) {
    more = false;
    for (const auto& [text, op] : kOperators) {
      if (!reader_.TakeOperator(text)) continue;
      if (!chain) {
        chain = New(Expr::Kind::kArithmetic);
        chain->parts.push_back(std::move(first));
      }
      chain->ops.push_back(op);
      chain->parts.push_back(Power());
      more = true;
      break;
    }
  }
  return chain ? std::move(chain) : std::move(first);
}

ExprPtr ExpressionParser::Power() {
  ExprPtr first = Unary(true);
  if (!reader_.Peek().IsOperator("**")) return first;
  ExprPtr chain = New(Expr::Kind::kArithmetic);
  chain->parts.push_back(std::move(first));
  while (reader_.TakeOperator("**")) {
    chain->ops.push_back(Op::kPower);
    chain->parts.push_back(Unary(true));
  }
  return chain;
}

ExprPtr ExpressionParser::Unary(bool with_filters) {
  ExprPtr value;
  if (reader_.Peek().IsOperator("-") || reader_.Peek().IsOperator("+")) {
    const Level level(reader_);
    value = New(reader_.Peek().IsOperator("-") ? Expr::Kind::kNegate : Expr::Kind::kPlus);
    reader_.Take();
    value->parts.push_back(Unary(false));
  } else {
    value = PostfixOf(Primary());
  }
  return with_filters ? FiltersOf(std::move(value)) : std::move(value);
}

ExprPtr ExpressionParser::Primary() {
  ExprPtr expr = New(Expr::Kind::kConstant);
  const Token token = reader_.Take();
  switch (token.kind) {
    case TokenKind::kName:
      if (token.text == "true" || token.text == "True") {
        expr->constant = Value(true);
      } else if (token.text == "false" || token.text == "False") {
        expr->constant = Value(false);
      } else if (token.text == "none" || token.text == "None") {
        expr->constant = Value(None{});
      } else {
        expr->kind = Expr::Kind::kName;
        expr->name = token.text;
        expr->name_id = reader_.IdOf(token.text);
      }
      return expr;
    case TokenKind::kString: {
      std::string text = token.text;
      while (reader_.Peek().kind == TokenKind::kString) text += reader_.Take().text;
      expr->constant = Value(std::move(text));
      return expr;
    }
    case TokenKind::kInteger: {
      int64_t number = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, number).ec != std::errc()) {
        reader_.Fail("an integer beyond 64 bits");
      }
      expr->constant = Value(number);
      return expr;
    }
    case TokenKind::kFloat: {
      double number = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, number).ec != std::errc()) {
        reader_.Fail("a number beyond the range of double");
      }
      expr->constant = Value(number);
      return expr;
    }
    case TokenKind::kOperator:
      if (token.text == "(") return ParenthesisRest();
      if (token.text == "[") return ListRest();
      if (token.text == "{") return DictRest();
      break;
    default: break;
  }
  reader_.Fail("expected an expression");
  return expr;
}

ExprPtr ExpressionParser::ParenthesisRest() {
  if (reader_.TakeOperator(")")) return New(Expr::Kind::kTuple);
  ExprPtr inner = ExpressionOrTuple();
  reader_.WantOperator(")");
  return inner;
}

ExprPtr ExpressionParser::ListRest() {
  ExprPtr list = New(Expr::Kind::kList);
  while (reader_.ok() && !reader_.Peek().IsOperator("]")) {
    list->parts.push_back(Expression());
    if (!reader_.TakeOperator(",")) break;
  }
  reader_.WantOperator("]");
  return list;
}

ExprPtr ExpressionParser::DictRest() {
  ExprPtr dict = New(Expr::Kind::kDict);
  while (reader_.ok() && !reader_.Peek().IsOperator("}")) {
    dict->parts.push_back(Expression());
    reader_.WantOperator(":");
    dict->parts.push_back(Expression());
    if (!reader_.TakeOperator(",")) break;
  }
  reader_.WantOperator("}");
  return dict;
}

ExprPtr ExpressionParser::PostfixOf(ExprPtr base) {
  ExprPtr chain;
  const auto add = [&](Postfix step) {
    if (!chain) {
      chain = New(Expr::Kind::kPostfix);
      chain->parts.push_back(std::move(base));
    }
    chain->steps.push_back(std::move(step));
  };
  while (reader_.ok()) {
    if (reader_.TakeOperator(".")) {
      if (reader_.Peek().kind == TokenKind::kInteger) {
        Postfix step{.kind = Postfix::Kind::kItem};
        step.item = Primary();
        add(std::move(step));
      } else {
        add({.kind = Postfix::Kind::kAttribute, .name = reader_.WantAnyName()});
      }
    } else if (reader_.TakeOperator("[")) {
      add(Subscript());
    } else if (reader_.TakeOperator("(")) {
      add({.kind = Postfix::Kind::kCall, .args = Arguments()});
    } else {
      break;
    }
  }
  return chain ? std::move(chain) : std::move(base);
}

ExprPtr ExpressionParser::FiltersOf(ExprPtr base) {
  ExprPtr chain;
  const auto add = [&](Postfix step) {
    if (!chain && base->kind == Expr::Kind::kPostfix) {
      chain = std::move(base);
    } else if (!chain) {
      chain = New(Expr::Kind::kPostfix);
      chain->parts.push_back(std::move(base));
    }
    chain->steps.push_back(std::move(step));
  };
  while (reader_.ok()) {
    if (reader_.TakeOperator("|")) {
      add(Filter());
    } else if (reader_.TakeName("is")) {
      add(Test());
    } else if (reader_.TakeOperator("(")) {
      add({.kind = Postfix::Kind::kCall, .args = Arguments()});
    } else {
      break;
    }
  }
  return chain ? std::move(chain) : std::move(base);
}

Postfix ExpressionParser::Subscript() {
  Postfix step{.kind = Postfix::Kind::kItem};
  const auto ends = [&] {
    return reader_.Peek().IsOperator(":") || reader_.Peek().IsOperator("]");
  };
  if (!ends()) step.item = Expression();
  if (reader_.TakeOperator(":")) {
    step.kind = Postfix::Kind::kSlice;
    step.start = std::move(step.item);
    if (!ends()) step.stop = Expression();
    if (reader_.TakeOperator(":") && !ends()) step.step = Expression();
  } else if (!step.item) {
    reader_.Fail("expected a subscript");
  }
  reader_.WantOperator("]");
  return step;
}

Postfix ExpressionParser::Filter() {
  Postfix step{.kind = Postfix::Kind::kFilter, .name = reader_.WantAnyName()};
  if (reader_.ok() && !IsFilter(step.name)) {
    reader_.Fail(fmt::format("there is no filter '{:.64}'", step.name), StatusCode::kUnsupported);
  }
  if (reader_.TakeOperator("(")) step.args = Arguments();
  return step;
}

std::vector<Postfix> ExpressionParser::FilterChain() {
  std::vector<Postfix> chain;
  do {
    chain.push_back(Filter());
  } while (reader_.TakeOperator("|"));
  return chain;
}

// After "is".  A test takes one argument without parentheses: "x is equalto 3".
Postfix ExpressionParser::Test() {
  Postfix step{.kind = Postfix::Kind::kTest};
  step.negated = reader_.TakeName("not");
  step.name = reader_.WantAnyName();
  if (reader_.ok() && !IsTest(step.name)) {
    reader_.Fail(fmt::format("there is no test '{:.64}'", step.name), StatusCode::kUnsupported);
  }
  const Token& next = reader_.Peek();
  if (reader_.TakeOperator("(")) {
    step.args = Arguments();
  } else if (next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
             next.kind == TokenKind::kFloat || next.IsOperator("[") || next.IsOperator("{") ||
             (next.kind == TokenKind::kName && !next.IsName("else") && !next.IsName("or") &&
              !next.IsName("and") && !next.IsName("is") && !next.IsName("if") &&
              !next.IsName("in") && !next.IsName("not"))) {
    step.args.push_back({"", PostfixOf(Primary())});
  }
  return step;
}

std::vector<Argument> ExpressionParser::Arguments() {
  std::vector<Argument> args;
  while (reader_.ok() && !reader_.Peek().IsOperator(")")) {
    Argument arg;
    if (reader_.Peek().IsOperator("*") || reader_.Peek().IsOperator("**")) {
      reader_.Fail("unpacked arguments are not supported", StatusCode::kUnsupported);
    }
    if (reader_.Peek().kind == TokenKind::kName && reader_.PeekNext().IsOperator("=")) {
      arg.name = reader_.Take().text;
      reader_.Take();
    }
    if (arg.name.empty() && !args.empty() && !args.back().name.empty()) {
      reader_.Fail("an argument by position after one by name");
    }
    arg.value = Expression();
    args.push_back(std::move(arg));
    if (!reader_.TakeOperator(",")) break;
  }
  reader_.WantOperator(")");
  return args;
}

}  // namespace weft::text::jinja
