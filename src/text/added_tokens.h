// Finding added tokens ("<|im_start|>") in text: leftmost, of those the longest, before any other
// rule of the tokenizer sees the text.
// Thread: immutable.  Cost: text length times the length that the text has in common with the
// beginning of some token; tokens are at most kAddedTokenBytesMax long.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

inline constexpr size_t kAddedTokenBytesMax = 1024;

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false;      // left out by skip_special_tokens; not parsed if parse_special is off
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool single_word = false;  // only between characters that are no word characters
  bool normalized = false;   // looked for after normalisation, in its normalised form
};

class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  struct Piece {
    std::string_view text;
    int32_t id = -1;  // of the added token that `text` is, or -1: ordinary text
  };
  // Appends the pieces of `text` in order, none of them empty.
  void Split(std::string_view text, bool parse_special, std::vector<Piece>& out) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    unsigned char byte = 0;
    int32_t token = -1;  // index of the token that ends here
    int32_t child = -1;  // first
    int32_t sibling = -1;
  };
  struct Match {
    int32_t token;
    size_t bytes;
  };
  Match LongestAt(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_;
};

}  // namespace weft::text
