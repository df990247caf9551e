// The place in the tokens that the two halves of the parser share, the names seen so far, and the
// first error.  After an error the parser sees the end of the template and unwinds by itself.
// Thread: one.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/lexer.h"

namespace weft::text::jinja {

class TokenReader {
 public:
  TokenReader(std::vector<Token> tokens, int depth_max)
      : tokens_(std::move(tokens)), depth_max_(depth_max) {}

  const Token& Peek() const { return tokens_[at_]; }
  const Token& PeekNext() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token Take() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool TakeOperator(std::string_view op) { return Peek().IsOperator(op) && (Take(), true); }
  bool TakeName(std::string_view name) { return Peek().IsName(name) && (Take(), true); }
  void WantOperator(std::string_view op) {
    if (!TakeOperator(op)) Fail(fmt::format("expected '{}'", op));
  }
  void WantName(std::string_view name) {
    if (!TakeName(name)) Fail(fmt::format("expected '{}'", name));
  }
  void Want(TokenKind kind, std::string_view what) {
    if (Peek().kind == kind) {
      Take();
    } else {
      Fail(fmt::format("expected {}", what));
    }
  }
  std::string WantAnyName() {
    if (Peek().kind == TokenKind::kName) return Take().text;
    Fail("expected a name");
    return "";
  }

  size_t IdOf(const std::string& name) {
    const auto [entry, added] = ids_.emplace(name, names_.size());
    if (added) names_.push_back(name);
    return entry->second;
  }
  std::vector<std::string> TakeNames() { return std::move(names_); }

  bool ok() const { return error_.ok(); }
  const Status& error() const { return error_; }
  void Fail(std::string_view what, StatusCode code = StatusCode::kInvalid) {
    if (error_.ok()) error_ = Status(code, fmt::format("template line {}: {}", Peek().line, what));
    at_ = tokens_.size() - 1;
  }

  // One level of nesting for as long as it lives.
  class Level {
   public:
    explicit Level(TokenReader& reader) : reader_(reader) {
      if (++reader_.depth_ > reader_.depth_max_) {
        reader_.Fail(fmt::format("nested deeper than {} levels", reader_.depth_max_));
      }
    }
    ~Level() { --reader_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenReader& reader_;
  };

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int depth_max_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> ids_;
  Status error_;
};

}  // namespace weft::text::jinja
