// Expressions, by precedence from loose to tight: conditional, or, and, not, comparison, + -, ~,
// * / // %, **, unary, postfix.
// Thread: one.  Errors: in the reader.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/token_reader.h"

namespace weft::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& reader) : reader_(reader) {}

  // Never null.
  ExprPtr Expression();
  // Without "a if b": what "for .. in" iterates, since an "if" there filters.
  ExprPtr WithoutCondition() { return Or(); }
  // Like Expression(), and a tuple if commas follow.
  ExprPtr ExpressionOrTuple();
  // "name(args)|name..." after "filter" or the name of a block set.
  std::vector<Postfix> FilterChain();

 private:
  ExprPtr New(Expr::Kind kind) const;
  ExprPtr Or();
  ExprPtr And();
  ExprPtr Not();
  ExprPtr Compare();
  ExprPtr Sum();
  ExprPtr Concat();
  ExprPtr Product();
  ExprPtr Power();
  ExprPtr Unary(bool with_filters);
  ExprPtr Primary();
  ExprPtr ListRest();
  ExprPtr DictRest();
  ExprPtr ParenthesisRest();
  ExprPtr PostfixOf(ExprPtr base);
  ExprPtr FiltersOf(ExprPtr base);
  Postfix Subscript();
  Postfix Filter();
  Postfix Test();
  std::vector<Argument> Arguments();

  TokenReader& reader_;
};

}  // namespace weft::text::jinja
