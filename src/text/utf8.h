// UTF-8: reading, writing, and what becomes of bytes that are none.
// An ill-formed sequence becomes U+FFFD once per maximal subpart (Unicode 3.9, the rule that
// Python's errors="replace" and the WHATWG decoder follow), in one piece or fed byte by byte alike.
// Thread: functions are pure; an Utf8Assembler belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::text {

struct CodePoint {
  char32_t value;
  uint32_t bytes;
};

// The code point that begins at `at`.  REQUIRES: text is valid UTF-8 and at < text.size().
inline CodePoint ReadUtf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1fu) << 6 | (byte(1) & 0x3fu), 2};
  if (lead < 0xf0) return {(lead & 0xfu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu), 3};
  return {(lead & 7u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu),
          4};
}

void AppendUtf8(std::string& out, char32_t code);

bool IsValidUtf8(std::string_view text);

// Text with each ill-formed subpart replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Number of code points of valid UTF-8.
size_t CountCodePoints(std::string_view text);

// Turns a stream of bytes into valid UTF-8 and keeps an incomplete last sequence to itself until
// the next bytes complete it or show that nothing can.
class Utf8Assembler {
 public:
  // Appends to `out` what is settled after `bytes`.
  void Feed(std::string_view bytes, std::string& out);
  // The stream ended: an incomplete sequence is ill-formed after all.
  void Finish(std::string& out);
  bool pending() const { return held_ > 0; }

 private:
  std::array<char, 4> hold_{};
  uint8_t held_ = 0;    // bytes in hold_
  uint8_t wanted_ = 0;  // continuation bytes still missing
};

}  // namespace weft::text
