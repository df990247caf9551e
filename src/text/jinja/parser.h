// Tokens to a syntax tree.  What the language has and chat templates do not use (inheritance,
// imports, call blocks, recursive loops) is refused here, at load and with the line.
// Thread: pure function.  Errors: kInvalid or kUnsupported with the line; nesting deeper than
// depth_max.
#pragma once

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace weft::text::jinja {

Result<Template> ParseTemplate(std::vector<Token> tokens, int depth_max);

}  // namespace weft::text::jinja
