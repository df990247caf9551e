#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) WEFT_RETURN_IF_ERROR(Text());
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool Sees(std::string_view s) const { return Rest().starts_with(s); }
  void Emit(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void Advance(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
  }
  void SkipSpace() {
    size_t n = 0;
    while (at_ + n < source_.size() && IsSpace(source_[at_ + n])) ++n;
    Advance(n);
  }
  Status Error(std::string_view what) const {
    return Status::Invalid("template line {}: {}", line_, what);
  }

  // Text up to the next tag, and that tag.
  Status Text() {
    size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 >= source_.size()) {
        open = source_.size();
        break;
      }
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    std::string_view text = std::string_view(source_).substr(at_, open - at_);
    const char kind = open < source_.size() ? source_[open + 1] : '\0';
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    if (kind != '\0' && sign == '-') {
      while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    } else if ((kind == '%' || kind == '#') && sign != '+') {
      // A tag alone on its line: the blanks before it are layout.
      size_t line = text.size();
      while (line > 0 && IsSpace(text[line - 1]) && text[line - 1] != '\n') --line;
      const bool starts_line =
          line > 0 ? text[line - 1] == '\n' : at_ == 0 || source_[at_ - 1] == '\n';
      if (starts_line) text = text.substr(0, line);
    }
    if (!text.empty()) Emit(TokenKind::kText, std::string(text));
    Advance(open - at_);
    if (kind == '\0') return Status::Ok();
    Advance(2);
    if (kind == '#') return Comment();
    if (sign == '-' || sign == '+') Advance(1);
    if (kind == '%') {
      if (Raw()) return RawBody();
      Emit(TokenKind::kBlockBegin, "");
      return Tag("%}", TokenKind::kBlockEnd);
    }
    Emit(TokenKind::kPrintBegin, "");
    return Tag("}}", TokenKind::kPrintEnd);
  }

  // After the end of a block or comment, whose last sign was `sign`.
  void TrimAfter(char sign) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && Sees("\n")) {
      Advance(1);
    }
  }

  Status Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return Error("a comment does not end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Advance(end + 2 - at_);
    TrimAfter(sign);
    return Status::Ok();
  }

  // Steps over "raw %}" if that is what the block says.
  bool Raw() {
    size_t i = at_;
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    if (!std::string_view(source_).substr(i).starts_with("raw")) return false;
    i += 3;
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    const std::string_view rest = std::string_view(source_).substr(i);
    const bool strips = rest.starts_with("-%}");
    if (!strips && !rest.starts_with("%}")) return false;
    Advance(i + (strips ? 3 : 2) - at_);
    TrimAfter(strips ? '-' : '\0');
    return true;
  }

  Status RawBody() {
    for (size_t open = source_.find("{%", at_); open != std::string::npos;
         open = source_.find("{%", open + 2)) {
      size_t i = open + 2;
      const char sign = i < source_.size() ? source_[i] : '\0';
      if (sign == '-' || sign == '+') ++i;
      while (i < source_.size() && IsSpace(source_[i])) ++i;
      if (!std::string_view(source_).substr(i).starts_with("endraw")) continue;
      i += 6;
      while (i < source_.size() && IsSpace(source_[i])) ++i;
      std::string_view rest = std::string_view(source_).substr(i);
      const char end_sign = rest.empty() ? '\0' : rest[0];
      if (end_sign == '-' || end_sign == '+') rest.remove_prefix(1);
      if (!rest.starts_with("%}")) continue;
      std::string_view text = std::string_view(source_).substr(at_, open - at_);
      if (sign == '-') {
        while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
      } else if (sign != '+') {
        size_t line = text.size();
        while (line > 0 && IsSpace(text[line - 1]) && text[line - 1] != '\n') --line;
        if (line > 0 && text[line - 1] == '\n') text = text.substr(0, line);
      }
      if (!text.empty()) Emit(TokenKind::kText, std::string(text));
      Advance(source_.size() - rest.size() + 2 - at_);
      TrimAfter(end_sign);
      return Status::Ok();
    }
    return Error("a raw block does not end");
  }

  // Tokens up to `end`, which does not count inside brackets.
  Status Tag(std::string_view end, TokenKind end_kind) {
    std::string open;  // brackets
    for (;;) {
      SkipSpace();
      if (at_ == source_.size()) return Error("a tag does not end");
      if (open.empty()) {
        const char sign = source_[at_];
        const bool has_sign = (sign == '-' || (sign == '+' && end == "%}"));
        if (Sees(end) || (has_sign && Rest().substr(1).starts_with(end))) {
          Emit(end_kind, "");
          Advance(has_sign ? 3 : 2);
          if (end == "%}") {
            TrimAfter(has_sign ? sign : '\0');
          } else if (has_sign) {
            SkipSpace();
          }
          return Status::Ok();
        }
      }
      WEFT_RETURN_IF_ERROR(One(open));
    }
  }

  Status One(std::string& open) {
    const char c = source_[at_];
    size_t n = 1;
    if (IsNameStart(c)) {
      while (at_ + n < source_.size() &&
             (IsNameStart(source_[at_ + n]) || IsDigit(source_[at_ + n])))
        ++n;
      Emit(TokenKind::kName, std::string(Rest().substr(0, n)));
      Advance(n);
      return Status::Ok();
    }
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return String();
    constexpr std::array<std::string_view, 6> kPairs{"==", "!=", "<=", ">=", "**", "//"};
    for (const std::string_view op : kPairs) {
      if (Sees(op)) {
        Emit(TokenKind::kOperator, std::string(op));
        Advance(2);
        return Status::Ok();
      }
    }
    if (std::string_view("+-*/%~<>=()[]{},.:|;").find(c) == std::string_view::npos) {
      return Error("an unexpected character in a tag");
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return Error("brackets do not match");
      open.pop_back();
    }
    Emit(TokenKind::kOperator, std::string(1, c));
    Advance(1);
    return Status::Ok();
  }

  Status Number() {
    size_t n = 0;
    const auto digits = [&] {
      const size_t start = n;
      while (at_ + n < source_.size() &&
             (IsDigit(source_[at_ + n]) || (n > start && source_[at_ + n] == '_'))) {
        ++n;
      }
      return n > start;
    };
    digits();
    bool real = false;
    if (at_ + n + 1 < source_.size() && source_[at_ + n] == '.' && IsDigit(source_[at_ + n + 1])) {
      real = true;
      ++n;
      digits();
    }
    if (at_ + n < source_.size() && (source_[at_ + n] == 'e' || source_[at_ + n] == 'E')) {
      const size_t before = n++;
      if (at_ + n < source_.size() && (source_[at_ + n] == '+' || source_[at_ + n] == '-')) ++n;
      if (digits()) {
        real = true;
      } else {
        n = before;
      }
    }
    std::string text(Rest().substr(0, n));
    std::erase(text, '_');
    Emit(real ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
    Advance(n);
    return Status::Ok();
  }

  Status String() {
    const char quote = source_[at_];
    std::string value;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        value += source_[i];
        continue;
      }
      if (++i == source_.size()) break;
      WEFT_RETURN_IF_ERROR(Escape(i, value));
    }
    if (i >= source_.size()) return Error("a string does not end");
    Emit(TokenKind::kString, std::move(value));
    Advance(i + 1 - at_);
    return Status::Ok();
  }

  // source_[i] follows a backslash; leaves i at the last character of the escape.
  Status Escape(size_t& i, std::string& value) {
    const char c = source_[i];
    constexpr std::string_view kFrom = "ntr\\'\"abfv";
    constexpr std::string_view kTo = "\n\t\r\\'\"\a\b\f\v";
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      value += kTo[known];
    } else if (c == '\n') {
      // continues on the next line
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t n = 0;
      while (n < 3 && i + n < source_.size() && source_[i + n] >= '0' && source_[i + n] <= '7') {
        code = code * 8 + static_cast<uint32_t>(source_[i + n++] - '0');
      }
      i += n - 1;
      AppendUtf8(value, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      for (size_t n = 0; n < digits; ++n) {
        const int digit = ++i < source_.size() ? HexDigit(source_[i]) : -1;
        if (digit < 0) return Error("a bad escape in a string");
        code = code * 16 + static_cast<uint32_t>(digit);
      }
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return Error("a bad escape in a string");
      AppendUtf8(value, code);
    } else if (c == 'N') {
      return Error("named characters in strings are not supported");
    } else {
      value += '\\';
      value += c;
    }
    return Status::Ok();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(NormalizeNewlines(source)).Run();
}

}  // namespace weft::text::jinja
