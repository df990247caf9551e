#include "text/utf8.h"

namespace weft::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Continuation bytes that follow this lead byte, or -1 if it cannot lead.
int ContinuationsOf(unsigned char lead) {
  if (lead < 0x80) return 0;
  if (lead >= 0xc2 && lead <= 0xdf) return 1;
  if (lead >= 0xe0 && lead <= 0xef) return 2;
  if (lead >= 0xf0 && lead <= 0xf4) return 3;
  return -1;
}

// Whether `next` may follow `lead` directly; the bounds keep out overlong forms, surrogates and
// values beyond U+10FFFF.
bool SecondFits(unsigned char lead, unsigned char next) {
  switch (lead) {
    case 0xe0: return next >= 0xa0 && next <= 0xbf;
    case 0xed: return next >= 0x80 && next <= 0x9f;
    case 0xf0: return next >= 0x90 && next <= 0xbf;
    case 0xf4: return next >= 0x80 && next <= 0x8f;
    default: return next >= 0x80 && next <= 0xbf;
  }
}

}  // namespace

void AppendUtf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

void Utf8Assembler::Feed(std::string_view bytes, std::string& out) {
  size_t plain = 0;  // start of the ASCII run that is not yet copied
  const auto copy_until = [&](size_t end) { out.append(bytes.data() + plain, end - plain); };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (held_ > 0) {
      const bool fits = held_ == 1 ? SecondFits(static_cast<unsigned char>(hold_[0]), byte)
                                   : byte >= 0x80 && byte <= 0xbf;
      if (fits) {
        hold_[held_++] = bytes[i];
        if (--wanted_ == 0) {
          out.append(hold_.data(), held_);
          held_ = 0;
        }
        plain = i + 1;
        continue;
      }
      out += kReplacement;
      held_ = 0;
      plain = i;
    }
    if (byte < 0x80) continue;
    copy_until(i);
    plain = i + 1;
    const int continuations = ContinuationsOf(byte);
    if (continuations < 0) {
      out += kReplacement;
    } else {
      hold_[0] = bytes[i];
      held_ = 1;
      wanted_ = static_cast<uint8_t>(continuations);
    }
  }
  copy_until(bytes.size());
}

void Utf8Assembler::Finish(std::string& out) {
  if (held_ > 0) out += kReplacement;
  held_ = 0;
}

bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int continuations = ContinuationsOf(lead);
    if (continuations < 0 || text.size() - i <= static_cast<size_t>(continuations)) return false;
    for (int j = 1; j <= continuations; ++j) {
      const auto byte = static_cast<unsigned char>(text[i + j]);
      if (j == 1 ? !SecondFits(lead, byte) : (byte < 0x80 || byte > 0xbf)) return false;
    }
    i += 1 + static_cast<size_t>(continuations);
  }
  return true;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Assembler assembler;
  assembler.Feed(bytes, out);
  assembler.Finish(out);
  return out;
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

}  // namespace weft::text
