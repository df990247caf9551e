// The printable alphabet in which byte-level vocabularies write bytes: printable Latin-1 stands for
// itself, the other 68 bytes for U+0100 and up in increasing order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace weft::text {

class ByteAlphabet {
 public:
  constexpr ByteAlphabet() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      code_of_[byte] = printable ? byte : next++;
    }
  }
  constexpr char32_t CodeOf(unsigned char byte) const { return code_of_[byte]; }

  // The bytes that a vocabulary entry stands for; nothing if it uses another character.
  std::optional<std::string> Bytes(std::string_view entry) const {
    std::string bytes;
    for (size_t i = 0; i < entry.size();) {
      const CodePoint c = ReadUtf8(entry, i);
      i += c.bytes;
      int byte = -1;
      if (c.value >= 0x100 && c.value < 0x100 + 68) {
        byte = byte_of_shifted_[c.value - 0x100];
      } else if (c.value < 0x100 && code_of_[c.value] == c.value) {
        byte = static_cast<int>(c.value);
      }
      if (byte < 0) return std::nullopt;
      bytes += static_cast<char>(byte);
    }
    return bytes;
  }

 private:
  std::array<char32_t, 256> code_of_{};
  std::array<unsigned char, 68> byte_of_shifted_ = [] {
    std::array<unsigned char, 68> bytes{};
    size_t next = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      if (!printable) bytes[next++] = static_cast<unsigned char>(byte);
    }
    return bytes;
  }();
};

inline constexpr ByteAlphabet kByteAlphabet;

}  // namespace weft::text
