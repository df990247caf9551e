#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/check.h"
#include "text/jinja/expression_parser.h"
#include "text/jinja/token_reader.h"

namespace weft::text::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(TokenReader& reader) : reader_(reader), expressions_(reader) {}

  // Up to a block tag with one of `ends`, which is taken with "{%" and its name; which one is in
  // `end`.  Without ends: up to the end of the template.
  Block Body(Names ends, std::string& end) {
    const TokenReader::Level level(reader_);
    Block block;
    while (reader_.ok()) {
      const Token& token = reader_.Peek();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) reader_.Fail(fmt::format("expected '{}'", *(ends.end() - 1)));
        break;
      }
      Stmt stmt{.kind = Stmt::Kind::kText, .line = token.line};
      if (token.kind == TokenKind::kText) {
        stmt.text = reader_.Take().text;
      } else if (token.kind == TokenKind::kPrintBegin) {
        reader_.Take();
        stmt.kind = Stmt::Kind::kPrint;
        stmt.expr = expressions_.ExpressionOrTuple();
        reader_.Want(TokenKind::kPrintEnd, "'}}'");
      } else {
        reader_.Take();
        const std::string name = reader_.WantAnyName();
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
          end = name;
          return block;
        }
        Tag(name, stmt);
      }
      block.push_back(std::move(stmt));
    }
    return block;
  }

 private:
  void EndTag() { reader_.Want(TokenKind::kBlockEnd, "'%}'"); }

  // A body that one end tag closes.
  Block BodyUntil(std::string_view end_name) {
    EndTag();
    std::string end;
    Block body = Body({end_name}, end);
    EndTag();
    return body;
  }

  void Tag(const std::string& name, Stmt& stmt) {
    if (name == "if") return If(stmt);
    if (name == "for") return For(stmt);
    if (name == "set") return Set(stmt);
    if (name == "macro") return Macro(stmt);
    if (name == "with") return With(stmt);
    if (name == "filter") {
      stmt.kind = Stmt::Kind::kFilter;
      stmt.filters = expressions_.FilterChain();
      stmt.body = BodyUntil("endfilter");
    } else if (name == "generation") {
      // Marks the assistant's turns for training; prints its body.
      stmt.kind = Stmt::Kind::kScope;
      stmt.body = BodyUntil("endgeneration");
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) reader_.Fail(fmt::format("'{}' outside of a loop", name));
      stmt.kind = name == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue;
      EndTag();
    } else if (name == "include" || name == "import" || name == "from" || name == "extends" ||
               name == "block" || name == "call" || name == "autoescape" || name == "do") {
      reader_.Fail(fmt::format("'{}' is not supported in chat templates", name),
                   StatusCode::kUnsupported);
    } else {
      reader_.Fail(fmt::format("unknown tag '{:.64}'", name));
    }
  }

  void If(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kIf;
    for (std::string end; reader_.ok();) {
      ExprPtr condition = expressions_.ExpressionOrTuple();
      EndTag();
      Block body = Body({"elif", "else", "endif"}, end);
      stmt.branches.emplace_back(std::move(condition), std::move(body));
      if (end == "elif") continue;
      if (end == "else") {
        stmt.otherwise = BodyUntil("endif");
      } else {
        EndTag();
      }
      break;
    }
  }

  Target TargetNames() {
    Target target;
    const bool parenthesis = reader_.TakeOperator("(");
    do {
      target.name_ids.push_back(reader_.IdOf(reader_.WantAnyName()));
    } while (reader_.TakeOperator(","));
    if (parenthesis) reader_.WantOperator(")");
    return target;
  }

  void For(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kFor;
    stmt.target = TargetNames();
    reader_.WantName("in");
    stmt.expr = expressions_.WithoutCondition();
    if (reader_.TakeName("if")) stmt.condition = expressions_.Expression();
    if (reader_.Peek().IsName("recursive")) {
      reader_.Fail("recursive loops are not supported", StatusCode::kUnsupported);
    }
    EndTag();
    std::string end;
    ++loops_;
    stmt.body = Body({"else", "endfor"}, end);
    --loops_;
    if (end == "else") {
      stmt.otherwise = BodyUntil("endfor");
    } else {
      EndTag();
    }
  }

  void Set(Stmt& stmt) {
    stmt.target = TargetNames();
    if (stmt.target.name_ids.size() == 1 && reader_.TakeOperator(".")) {
      stmt.target.attribute = reader_.WantAnyName();
    }
    if (reader_.TakeOperator("=")) {
      stmt.kind = Stmt::Kind::kSet;
      stmt.expr = expressions_.ExpressionOrTuple();
      EndTag();
      return;
    }
    stmt.kind = Stmt::Kind::kSetBlock;
    if (stmt.target.name_ids.size() > 1) reader_.Fail("expected '='");
    if (reader_.TakeOperator("|")) stmt.filters = expressions_.FilterChain();
    stmt.body = BodyUntil("endset");
  }

  void With(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kWith;
    while (reader_.ok() && reader_.Peek().kind == TokenKind::kName) {
      Target target;
      target.name_ids.push_back(reader_.IdOf(reader_.WantAnyName()));
      reader_.WantOperator("=");
      stmt.bindings.emplace_back(std::move(target), expressions_.Expression());
      if (!reader_.TakeOperator(",")) break;
    }
    stmt.body = BodyUntil("endwith");
  }

  void Macro(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kMacro;
    stmt.macro = std::make_shared<MacroNode>();
    stmt.macro->name = reader_.WantAnyName();
    stmt.name_id = reader_.IdOf(stmt.macro->name);
    reader_.WantOperator("(");
    while (reader_.ok() && !reader_.Peek().IsOperator(")")) {
      const std::string name = reader_.WantAnyName();
      ExprPtr otherwise;
      if (reader_.TakeOperator("=")) {
        otherwise = expressions_.Expression();
      } else if (!stmt.macro->parameters.empty() && stmt.macro->parameters.back().second) {
        reader_.Fail("a parameter without a default after one with it");
      }
      stmt.macro->parameters.emplace_back(reader_.IdOf(name), std::move(otherwise));
      stmt.macro->parameter_names.push_back(name);
      if (!reader_.TakeOperator(",")) break;
    }
    reader_.WantOperator(")");
    const int loops = std::exchange(loops_, 0);
    stmt.macro->body = BodyUntil("endmacro");
    loops_ = loops;
  }

  TokenReader& reader_;
  ExpressionParser expressions_;
  int loops_ = 0;
};

}  // namespace

Result<Template> ParseTemplate(std::vector<Token> tokens, int depth_max) {
  TokenReader reader(std::move(tokens), depth_max);
  WEFT_CHECK(reader.IdOf("loop") == kLoopName, "\"loop\" is the first name");
  StatementParser parser(reader);
  std::string end;
  Template made;
  made.body = parser.Body({}, end);
  if (!reader.ok()) return reader.error();
  made.names = reader.TakeNames();
  return made;
}

}  // namespace weft::text::jinja
