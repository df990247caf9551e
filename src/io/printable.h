// Text that came out of a file, made fit for a message or a log line.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace weft::io {

// At most 64 bytes of `text`; whatever is not printable ASCII becomes \xNN.
inline std::string Printable(std::string_view text) {
  constexpr size_t kBytesMax = 64;
  std::string out;
  for (const char c : text.substr(0, kBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > kBytesMax) out += "...";
  return out;
}

}  // namespace weft::io
