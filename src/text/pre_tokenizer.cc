#include "text/pre_tokenizer.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

// Reads characters with their classes; past the end there is a character of no class.
struct Scanner {
  std::string_view text;

  struct Char {
    char32_t code = 0;
    uint16_t classes = 0;
    uint32_t bytes = 0;  // 0: the end
    bool Is(uint16_t any) const { return (classes & any) != 0; }
    bool IsNot(uint16_t any) const { return bytes > 0 && (classes & any) == 0; }
  };
  Char At(size_t at) const {
    if (at >= text.size()) return {};
    const CodePoint c = ReadUtf8(text, at);
    return {c.value, ClassOf(c.value), c.bytes};
  }
  size_t SkipAny(size_t at, uint16_t any) const {
    for (Char c = At(at); c.Is(any); c = At(at)) at += c.bytes;
    return at;
  }
  size_t SkipNone(size_t at, uint16_t none) const {
    for (Char c = At(at); c.IsNot(none); c = At(at)) at += c.bytes;
    return at;
  }
};

// End of 's|'t|'re|'ve|'m|'ll|'d at `at`, or `at`.
size_t Contraction(const Scanner& scan, size_t at, bool any_case) {
  if (at >= scan.text.size() || scan.text[at] != '\'') return at;
  const auto letter = [&](size_t i) -> char {
    const Scanner::Char c = scan.At(i);
    if (!any_case) return c.code < 0x80 ? static_cast<char>(c.code) : '\0';
    if (c.code == 0x17f) return 's';  // long s folds to s
    if (c.code >= 'A' && c.code <= 'Z') return static_cast<char>(c.code + 32);
    return c.code < 0x80 ? static_cast<char>(c.code) : '\0';
  };
  switch (letter(at + 1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return at + 1 + scan.At(at + 1).bytes;
    case 'r':
    case 'v': return letter(at + 2) == 'e' ? at + 3 : at;
    case 'l': return letter(at + 2) == 'l' ? at + 3 : at;
    default: return at;
  }
}

// \s+(?!\S)|\s+ at a space: a run leaves its last character to the word that follows.
size_t SpaceRun(const Scanner& scan, size_t at) {
  size_t last = at;
  size_t end = at;
  for (Scanner::Char c = scan.At(at); c.Is(kSpace); c = scan.At(end)) {
    last = end;
    end += c.bytes;
  }
  return end == scan.text.size() || last == at ? end : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at a space: a run with newlines ends after the last of them.
size_t SpaceRunByLine(const Scanner& scan, size_t at) {
  size_t last_line = at;
  for (size_t end = at;;) {
    const Scanner::Char c = scan.At(end);
    if (!c.Is(kSpace)) break;
    end += c.bytes;
    if (c.Is(kNewline)) last_line = end;
  }
  return last_line > at ? last_line : SpaceRun(scan, at);
}

size_t Gpt2Word(const Scanner& scan, size_t at) {
  if (const size_t end = Contraction(scan, at, false); end > at) return end;
  const size_t body = at + (scan.text[at] == ' ');
  const Scanner::Char c = scan.At(body);
  if (c.Is(kLetter)) return scan.SkipAny(body, kLetter);
  if (c.Is(kNumber)) return scan.SkipAny(body, kNumber);
  if (c.IsNot(kSpace)) return scan.SkipNone(body, kSpace | kLetter | kNumber);
  return SpaceRun(scan, at);
}

// Up to `most` numbers at `at`.
size_t Numbers(const Scanner& scan, size_t at, int most) {
  Scanner::Char c = scan.At(at);
  for (int i = 0; i < most && c.Is(kNumber); ++i) {
    at += c.bytes;
    c = scan.At(at);
  }
  return at;
}

// The tail that Llama-3, Qwen and GPT-4o share: " ?[^\s..]+[\r\n]*", lines, spaces.  `word` are the
// classes that the punctuation may not have; `slash` lets it end in '/' as well.
size_t PunctuationOrSpace(const Scanner& scan, size_t at, uint16_t word, bool slash) {
  const size_t body = at + (scan.text[at] == ' ');
  if (scan.At(body).IsNot(kSpace | word)) {
    size_t end = scan.SkipNone(body, kSpace | word);
    while (end < scan.text.size() &&
           (scan.text[end] == '\r' || scan.text[end] == '\n' || (slash && scan.text[end] == '/'))) {
      ++end;
    }
    return end;
  }
  return SpaceRunByLine(scan, at);
}

// Contraction | [^\r\n\p{L}\p{N}]?word+ | \p{N}{1,numbers} | tail.
size_t Llama3Word(const Scanner& scan, size_t at, uint16_t word, int numbers) {
  if (const size_t end = Contraction(scan, at, true); end > at) return end;
  const Scanner::Char c = scan.At(at);
  if (c.Is(word)) return scan.SkipAny(at, word);
  if (c.IsNot(kNewline | kLetter | kNumber) && scan.At(at + c.bytes).Is(word)) {
    return scan.SkipAny(at + c.bytes, word);
  }
  if (c.Is(kNumber)) return Numbers(scan, at, numbers);
  return PunctuationOrSpace(scan, at, word | kNumber, false);
}

bool MayBeUpper(const Scanner::Char& c) { return c.Is(kLetter | kMark) && !c.Is(kLower); }
bool MayBeLower(const Scanner::Char& c) { return c.Is(kLetter | kMark) && !c.Is(kUpper); }

// End of upper* lower+ at `at`, where caseless letters and marks are both; 0: no match.
size_t UpperThenLower(const Scanner& scan, size_t at) {
  size_t end = at;
  size_t last_both = 0;  // end of the last caseless character in the upper run
  for (Scanner::Char c = scan.At(end); MayBeUpper(c); c = scan.At(end)) {
    end += c.bytes;
    if (MayBeLower(c)) last_both = end;
  }
  const size_t upper_end = end;
  for (Scanner::Char c = scan.At(end); MayBeLower(c); c = scan.At(end)) end += c.bytes;
  return end > upper_end ? end : last_both;  // else upper* gives back what lower+ can take
}

// End of upper+ at `at`, or 0.  (lower* after it is empty, or UpperThenLower() had matched.)
size_t Uppers(const Scanner& scan, size_t at) {
  size_t end = at;
  for (Scanner::Char c = scan.At(end); MayBeUpper(c); c = scan.At(end)) end += c.bytes;
  return end > at ? end : 0;
}

size_t Gpt4oWord(const Scanner& scan, size_t at) {
  const Scanner::Char c = scan.At(at);
  const bool leads = c.IsNot(kNewline | kLetter | kNumber);
  size_t end = leads ? UpperThenLower(scan, at + c.bytes) : 0;
  if (end == 0) end = UpperThenLower(scan, at);
  if (end == 0 && leads) end = Uppers(scan, at + c.bytes);
  if (end == 0) end = Uppers(scan, at);
  if (end > 0) return Contraction(scan, end, true);
  if (c.Is(kNumber)) return Numbers(scan, at, 3);
  return PunctuationOrSpace(scan, at, kLetter | kNumber, true);
}

bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// End of the match of DeepSeek's third expression that begins exactly at `at`, or `at`.
size_t DeepSeekMatch(const Scanner& scan, size_t at) {
  const Scanner::Char c = scan.At(at);
  const Scanner::Char next = scan.At(at + c.bytes);
  if (c.code < 0x80 && c.Is(kPunct | kSymbol) && IsAsciiLetter(next.code)) {
    size_t end = at + 1;
    while (IsAsciiLetter(scan.At(end).code)) ++end;
    return end;
  }
  constexpr uint16_t kWord = kLetter | kMark;
  if (c.Is(kWord)) return scan.SkipAny(at, kWord);
  if (c.IsNot(kNewline | kLetter | kPunct | kSymbol) && next.Is(kWord)) {
    return scan.SkipAny(at + c.bytes, kWord);
  }
  const size_t body = at + (c.code == ' ');
  if (scan.At(body).Is(kPunct | kSymbol)) {
    return scan.SkipAny(scan.SkipAny(body, kPunct | kSymbol), kNewline);
  }
  return c.Is(kSpace) ? SpaceRunByLine(scan, at) : at;
}

bool EachDeepSeekWord(std::string_view text, const WordSink& sink) {
  const Scanner scan{text};
  size_t gap = 0;  // start of what no alternative matched yet: one word of its own
  for (size_t at = 0; at < text.size();) {
    const size_t end = DeepSeekMatch(scan, at);
    if (end == at) {
      at += scan.At(at).bytes;
      continue;
    }
    if (gap < at && !sink(text.substr(gap, at - gap))) return false;
    if (!sink(text.substr(at, end - at))) return false;
    gap = at = end;
  }
  return gap == text.size() || sink(text.substr(gap));
}

template <typename WordEnd>
bool EachWord(std::string_view text, const WordSink& sink, const WordEnd& word_end) {
  const Scanner scan{text};
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(scan, at);
    WEFT_CHECK(end > at, "a pre-tokenizer found no word at byte {}", at);
    if (!sink(text.substr(at, end - at))) return false;
    at = end;
  }
  return true;
}

// Isolates the runs that `match(scan, at)` ends (at itself: no match) and gives the text between
// them to `rest`.
template <typename Match, typename Rest>
bool Isolate(std::string_view text, const WordSink& sink, const Match& match, const Rest& rest) {
  const Scanner scan{text};
  size_t from = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = match(scan, at);
    if (end == at) {
      at += scan.At(at).bytes;
      continue;
    }
    if (from < at && !rest(text.substr(from, at - from))) return false;
    if (!sink(text.substr(at, end - at))) return false;
    from = at = end;
  }
  return from == text.size() || rest(text.substr(from));
}

bool IsCjkOrKana(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fa5) || (c >= 0x3040 && c <= 0x30ff);
}

}  // namespace

void SplitWords(PreTokenizer pre, std::string_view text, const WordSink& sink) {
  switch (pre) {
    case PreTokenizer::kGpt2: EachWord(text, sink, Gpt2Word); return;
    case PreTokenizer::kSmolLm:
      Isolate(
          text, sink,
          [](const Scanner& scan, size_t at) {
            const Scanner::Char c = scan.At(at);
            return c.Is(kDigit) ? at + c.bytes : at;
          },
          [&](std::string_view rest) { return EachWord(rest, sink, Gpt2Word); });
      return;
    case PreTokenizer::kLlama3:
      EachWord(text, sink,
               [](const Scanner& s, size_t at) { return Llama3Word(s, at, kLetter, 3); });
      return;
    case PreTokenizer::kQwen2:
      EachWord(text, sink,
               [](const Scanner& s, size_t at) { return Llama3Word(s, at, kLetter, 1); });
      return;
    case PreTokenizer::kQwen35:
      EachWord(text, sink,
               [](const Scanner& s, size_t at) { return Llama3Word(s, at, kLetter | kMark, 1); });
      return;
    case PreTokenizer::kDeepSeekV3:
      Isolate(
          text, sink, [](const Scanner& scan, size_t at) { return Numbers(scan, at, 3); },
          [&](std::string_view rest) {
            return Isolate(
                rest, sink,
                [](const Scanner& scan, size_t at) {
                  size_t end = at;
                  for (Scanner::Char c = scan.At(end); IsCjkOrKana(c.code); c = scan.At(end)) {
                    end += c.bytes;
                  }
                  return end;
                },
                [&](std::string_view last) { return EachDeepSeekWord(last, sink); });
          });
      return;
    case PreTokenizer::kGpt4o: EachWord(text, sink, Gpt4oWord); return;
  }
}

}  // namespace weft::text
