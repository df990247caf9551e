// What kind of character a code point is, and normal form C.
// Categories come from utf8proc and, where its tables are older, from a list of what newer Unicode
// versions assigned: token boundaries move when a category does, and the oracle's engine knows
// Unicode 16.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::text {

enum CharClass : uint16_t {
  kLetter = 1 << 0,   // \p{L}
  kUpper = 1 << 1,    // \p{Lu} or \p{Lt}
  kLower = 1 << 2,    // \p{Ll}
  kMark = 1 << 3,     // \p{M}
  kNumber = 1 << 4,   // \p{N}
  kDigit = 1 << 5,    // what the "Digits" splitter isolates: \p{N} of Unicode 17
  kPunct = 1 << 6,    // \p{P}
  kSymbol = 1 << 7,   // \p{S}
  kSpace = 1 << 8,    // \s: White_Space
  kNewline = 1 << 9,  // CR or LF
};

// The CharClass bits of a code point.
uint16_t ClassOf(char32_t code);

// \w of a Unicode regular expression: letters, marks, digits, connectors.
bool IsWordChar(char32_t code);

// Normal form C, in linear time also for long runs of combining marks.
// REQUIRES: text is valid UTF-8 of less than 2^31 bytes.
std::string ToNfc(std::string_view text);

}  // namespace weft::text
