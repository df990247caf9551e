#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/utf8.h"

namespace weft::text {
namespace {

struct Range {
  char32_t first;
  char32_t last;
  uint16_t classes;
};

// Assigned after Unicode 15.0; written by tools/oracle/make_unicode_additions.py.
constexpr Range kAdditions[] = {
    {0x0897, 0x0897, kMark},
    {0x1b4e, 0x1b4f, kPunct},
    {0x1b7f, 0x1b7f, kPunct},
    {0x1c89, 0x1c89, kLetter | kUpper},
    {0x1c8a, 0x1c8a, kLetter | kLower},
    {0x2427, 0x2429, kSymbol},
    {0x2ffc, 0x2fff, kSymbol},
    {0x31e4, 0x31e5, kSymbol},
    {0x31ef, 0x31ef, kSymbol},
    {0xa7cb, 0xa7cc, kLetter | kUpper},
    {0xa7cd, 0xa7cd, kLetter | kLower},
    {0xa7da, 0xa7da, kLetter | kUpper},
    {0xa7db, 0xa7db, kLetter | kLower},
    {0xa7dc, 0xa7dc, kLetter | kUpper},
    {0x105c0, 0x105f3, kLetter},
    {0x10d40, 0x10d49, kNumber | kDigit},
    {0x10d4a, 0x10d4f, kLetter},
    {0x10d50, 0x10d65, kLetter | kUpper},
    {0x10d69, 0x10d6d, kMark},
    {0x10d6e, 0x10d6e, kPunct},
    {0x10d6f, 0x10d6f, kLetter},
    {0x10d70, 0x10d85, kLetter | kLower},
    {0x10d8e, 0x10d8f, kSymbol},
    {0x10ec2, 0x10ec4, kLetter},
    {0x10efc, 0x10efc, kMark},
    {0x11380, 0x11389, kLetter},
    {0x1138b, 0x1138b, kLetter},
    {0x1138e, 0x1138e, kLetter},
    {0x11390, 0x113b5, kLetter},
    {0x113b7, 0x113b7, kLetter},
    {0x113b8, 0x113c0, kMark},
    {0x113c2, 0x113c2, kMark},
    {0x113c5, 0x113c5, kMark},
    {0x113c7, 0x113ca, kMark},
    {0x113cc, 0x113d0, kMark},
    {0x113d1, 0x113d1, kLetter},
    {0x113d2, 0x113d2, kMark},
    {0x113d3, 0x113d3, kLetter},
    {0x113d4, 0x113d5, kPunct},
    {0x113d7, 0x113d8, kPunct},
    {0x113e1, 0x113e2, kMark},
    {0x116d0, 0x116e3, kNumber | kDigit},
    {0x11bc0, 0x11be0, kLetter},
    {0x11be1, 0x11be1, kPunct},
    {0x11bf0, 0x11bf9, kNumber | kDigit},
    {0x11de0, 0x11de9, kDigit},
    {0x11f5a, 0x11f5a, kMark},
    {0x13460, 0x143fa, kLetter},
    {0x16100, 0x1611d, kLetter},
    {0x1611e, 0x1612f, kMark},
    {0x16130, 0x16139, kNumber | kDigit},
    {0x16d40, 0x16d6c, kLetter},
    {0x16d6d, 0x16d6f, kPunct},
    {0x16d70, 0x16d79, kNumber | kDigit},
    {0x16ff4, 0x16ff6, kDigit},
    {0x18cff, 0x18cff, kLetter},
    {0x1cc00, 0x1ccef, kSymbol},
    {0x1ccf0, 0x1ccf9, kNumber | kDigit},
    {0x1cd00, 0x1ceb3, kSymbol},
    {0x1e5d0, 0x1e5ed, kLetter},
    {0x1e5ee, 0x1e5ef, kMark},
    {0x1e5f0, 0x1e5f0, kLetter},
    {0x1e5f1, 0x1e5fa, kNumber | kDigit},
    {0x1e5ff, 0x1e5ff, kPunct},
    {0x1f8b2, 0x1f8bb, kSymbol},
    {0x1f8c0, 0x1f8c1, kSymbol},
    {0x1fa89, 0x1fa89, kSymbol},
    {0x1fa8f, 0x1fa8f, kSymbol},
    {0x1fabe, 0x1fabe, kSymbol},
    {0x1fac6, 0x1fac6, kSymbol},
    {0x1fadc, 0x1fadc, kSymbol},
    {0x1fadf, 0x1fadf, kSymbol},
    {0x1fae9, 0x1fae9, kSymbol},
    {0x1fbcb, 0x1fbef, kSymbol},
    {0x2ebf0, 0x2ee5d, kLetter},
};

uint16_t ClassByCategory(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return kLetter | kUpper;
    case UTF8PROC_CATEGORY_LL: return kLetter | kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return kNumber | kDigit;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return kPunct;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return kSymbol;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return kSpace;
    case UTF8PROC_CATEGORY_CN: {
      const auto* range = std::lower_bound(std::begin(kAdditions), std::end(kAdditions), code,
                                           [](const Range& r, char32_t c) { return r.last < c; });
      return range != std::end(kAdditions) && range->first <= code ? range->classes : 0;
    }
    case UTF8PROC_CATEGORY_CC:
      if (code == '\r' || code == '\n') return kSpace | kNewline;
      return (code >= 9 && code <= 13) || code == 0x85 ? kSpace : 0;
    default: return 0;
  }
}

constexpr std::array<uint16_t, 128> kAscii = [] {
  std::array<uint16_t, 128> table{};
  for (unsigned c = 0; c < 128; ++c) {
    if (c >= 'a' && c <= 'z')
      table[c] = kLetter | kLower;
    else if (c >= 'A' && c <= 'Z')
      table[c] = kLetter | kUpper;
    else if (c >= '0' && c <= '9')
      table[c] = kNumber | kDigit;
    else if (c == '\r' || c == '\n')
      table[c] = kSpace | kNewline;
    else if ((c >= 9 && c <= 13) || c == ' ')
      table[c] = kSpace;
    else if (std::string_view("$+<=>^`|~").find(static_cast<char>(c)) != std::string_view::npos)
      table[c] = kSymbol;
    else if (c > 0x20 && c < 0x7f)
      table[c] = kPunct;
  }
  return table;
}();

}  // namespace

uint16_t ClassOf(char32_t code) { return code < 128 ? kAscii[code] : ClassByCategory(code); }

bool IsWordChar(char32_t code) {
  if (ClassOf(code) & (kLetter | kMark)) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
  }
  // Join controls, and the symbols that are alphabetic by exception.
  return code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) ||
         (code >= 0x1f130 && code <= 0x1f149) || (code >= 0x1f150 && code <= 0x1f169) ||
         (code >= 0x1f170 && code <= 0x1f189);
}

std::string ToNfc(std::string_view text) {
  // Nothing below U+0300 composes or is reordered.
  if (std::none_of(text.begin(), text.end(),
                   [](char c) { return static_cast<unsigned char>(c) >= 0xcc; })) {
    return std::string(text);
  }
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = ReadUtf8(text, i);
    i += c.bytes;
    constexpr int kPartsMax = 8;  // no canonical decomposition has more than 4
    utf8proc_int32_t parts[kPartsMax];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c.value), parts, kPartsMax,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
    if (n <= 0 || n > kPartsMax) {
      codes.push_back(static_cast<utf8proc_int32_t>(c.value));
    } else {
      codes.insert(codes.end(), parts, parts + n);
    }
  }
  // utf8proc_decompose() sorts marks by exchanging neighbours, which is quadratic in a run of them;
  // a stable sort per run gives the same order.
  const auto order = [](utf8proc_int32_t code) {
    return utf8proc_get_property(code)->combining_class;
  };
  for (size_t i = 0; i < codes.size();) {
    if (order(codes[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < codes.size() && order(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(i),
                     codes.begin() + static_cast<ptrdiff_t>(end),
                     [&](auto a, auto b) { return order(a) < order(b); });
    i = end;
  }
  const auto length =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) AppendUtf8(out, static_cast<char32_t>(codes[i]));
  return out;
}

}  // namespace weft::text
