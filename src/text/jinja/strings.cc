#include "text/jinja/strings.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

size_t CharStartBefore(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

char32_t Upper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t Lower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

template <typename Map>
std::string MapChars(std::string_view text, const Map& map) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = ReadUtf8(text, i);
    i += c.bytes;
    map(c.value, out);
  }
  return out;
}

void AppendUpper(char32_t code, std::string& out) {
  if (code == 0xdf) {
    out += "SS";  // the one common letter that becomes two
  } else {
    AppendUtf8(out, Upper(code));
  }
}

}  // namespace

size_t FindText(std::string_view whole, std::string_view part, size_t from) {
  if (from > whole.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(whole.data() + from, whole.size() - from, part.data(), part.size());
  if (!found) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - whole.data());
}

bool IsPythonSpace(char32_t code) {
  return (ClassOf(code) & kSpace) != 0 || (code >= 0x1c && code <= 0x1f);
}

std::string_view Strip(std::string_view text, const std::string* chars, bool left, bool right) {
  const auto strips = [&](size_t at) {
    const CodePoint c = ReadUtf8(text, at);
    if (!chars) return IsPythonSpace(c.value);
    for (size_t i = 0; i < chars->size();) {
      const CodePoint stripped = ReadUtf8(*chars, i);
      if (stripped.value == c.value) return true;
      i += stripped.bytes;
    }
    return false;
  };
  while (left && !text.empty() && strips(0)) text.remove_prefix(ReadUtf8(text, 0).bytes);
  while (right && !text.empty()) {
    const size_t last = CharStartBefore(text, text.size());
    if (!strips(last)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string ToUpper(std::string_view text) { return MapChars(text, AppendUpper); }

std::string ToLower(std::string_view text) {
  return MapChars(text, [](char32_t c, std::string& out) { AppendUtf8(out, Lower(c)); });
}

std::string Capitalize(std::string_view text) {
  bool first = true;
  return MapChars(text, [&](char32_t c, std::string& out) {
    if (std::exchange(first, false)) {
      AppendUpper(c, out);
    } else {
      AppendUtf8(out, Lower(c));
    }
  });
}

std::string ToTitle(std::string_view text, bool words_by_space) {
  bool inside = false;
  return MapChars(text, [&](char32_t c, std::string& out) {
    const bool in_word = words_by_space ? !IsPythonSpace(c) && c != '-' && c != '(' && c != '{' &&
                                              c != '[' && c != '<'
                                        : (ClassOf(c) & kLetter) != 0;
    if (in_word && !inside) {
      AppendUpper(c, out);
    } else {
      AppendUtf8(out, Lower(c));
    }
    inside = in_word;
  });
}

std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                        long long count) {
  std::string out;
  if (from.empty()) {
    // Before each character and at the end.
    for (size_t i = 0;;) {
      if (count != 0) out += to;
      if (count > 0) --count;
      if (i >= text.size()) return out;
      const size_t n = ReadUtf8(text, i).bytes;
      out += text.substr(i, n);
      i += n;
    }
  }
  size_t at = 0;
  while (count != 0) {
    const size_t found = FindText(text, from, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
    if (count > 0) --count;
  }
  out += text.substr(at);
  return out;
}

std::vector<std::string> SplitText(std::string_view text, const std::string* separator,
                                   long long splits, bool from_right) {
  std::vector<std::pair<size_t, size_t>> cuts;  // begin and end of what separates
  if (separator) {
    for (size_t at = 0;;) {
      const size_t found = FindText(text, *separator, at);
      if (found == std::string_view::npos) break;
      at = found + separator->size();
      cuts.emplace_back(found, at);
    }
  } else {
    text = Strip(text, nullptr, true, true);
    if (text.empty()) return {};
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = ReadUtf8(text, i);
      if (IsPythonSpace(c.value)) {
        if (!cuts.empty() && cuts.back().second == i) {
          cuts.back().second = i + c.bytes;
        } else {
          cuts.emplace_back(i, i + c.bytes);
        }
      }
      i += c.bytes;
    }
  }
  if (splits >= 0 && static_cast<size_t>(splits) < cuts.size()) {
    if (from_right) {
      cuts.erase(cuts.begin(), cuts.end() - static_cast<ptrdiff_t>(splits));
    } else {
      cuts.resize(static_cast<size_t>(splits));
    }
  }
  std::vector<std::string> out;
  size_t at = 0;
  for (const auto& [begin, end] : cuts) {
    out.emplace_back(text.substr(at, begin - at));
    at = end;
  }
  out.emplace_back(text.substr(at));
  return out;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t from = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = ReadUtf8(text, i);
    size_t end = i + c.bytes;
    const bool breaks = (c.value >= 10 && c.value <= 13) || (c.value >= 0x1c && c.value <= 0x1e) ||
                        c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
    if (breaks) {
      if (c.value == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.emplace_back(text.substr(from, (keep_ends ? end : i) - from));
      from = end;
    }
    i = end;
  }
  if (from < text.size()) lines.emplace_back(text.substr(from));
  return lines;
}

}  // namespace weft::text::jinja
