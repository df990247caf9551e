// Template text to tokens, with the white-space rules of the environment that chat templates are
// written for: trim_blocks and lstrip_blocks on, one newline at the end of the source dropped.
// Thread: pure function.  Errors: kInvalid with the line.  Cost: linear.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::text::jinja {

enum class TokenKind {
  kText,        // outside of tags, white space already trimmed
  kBlockBegin,  // {%
  kBlockEnd,
  kPrintBegin,  // {{
  kPrintEnd,
  kName,
  kInteger,
  kFloat,
  kString,  // text: its value, escapes resolved
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;

  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool IsOperator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
};

// The last token is kEnd.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace weft::text::jinja
