#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

// Start of the character that ends before `end`.
size_t CharBefore(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

bool WordEndsAt(std::string_view text, size_t end) {
  return end > 0 && IsWordChar(ReadUtf8(text, CharBefore(text, end)).value);
}

bool WordBeginsAt(std::string_view text, size_t at) {
  return at < text.size() && IsWordChar(ReadUtf8(text, at).value);
}

size_t SpaceBefore(std::string_view text, size_t at, size_t floor) {
  while (at > floor) {
    const size_t before = CharBefore(text, at);
    if (!(ClassOf(ReadUtf8(text, before).value) & kSpace)) break;
    at = before;
  }
  return at;
}

size_t SpaceAfter(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = ReadUtf8(text, at);
    if (!(ClassOf(c.value) & kSpace)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) {
  roots_.fill(-1);
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    int32_t parent = -1;
    for (const char c : token.content) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t node = parent < 0 ? roots_[byte] : nodes_[parent].child;
      while (node >= 0 && nodes_[node].byte != byte) node = nodes_[node].sibling;
      if (node < 0) {
        node = static_cast<int32_t>(nodes_.size());
        nodes_.push_back({.byte = byte});
        int32_t& head = parent < 0 ? roots_[byte] : nodes_[parent].child;
        if (parent >= 0) nodes_[node].sibling = head;
        head = node;
      }
      parent = node;
    }
    nodes_[parent].token = static_cast<int32_t>(tokens_.size());
    tokens_.push_back(token);
  }
}

AddedTokenMatcher::Match AddedTokenMatcher::LongestAt(std::string_view text, size_t at) const {
  Match best{-1, 0};
  int32_t node = roots_[static_cast<unsigned char>(text[at])];
  for (size_t i = at; node >= 0;) {
    ++i;
    if (nodes_[node].token >= 0) best = {nodes_[node].token, i - at};
    if (i == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[i]);
    node = nodes_[node].child;
    while (node >= 0 && nodes_[node].byte != byte) node = nodes_[node].sibling;
  }
  return best;
}

void AddedTokenMatcher::Split(std::string_view text, bool parse_special,
                              std::vector<Piece>& out) const {
  size_t from = 0;  // end of the last match with the space that it took
  for (size_t at = 0; at < text.size();) {
    const Match match = LongestAt(text, at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    // A match that does not count still hides what begins inside it.
    const AddedToken& token = tokens_[static_cast<size_t>(match.token)];
    size_t begin = at;
    size_t end = at + match.bytes;
    at = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && (WordEndsAt(text, begin) || WordBeginsAt(text, end))) continue;
    if (token.lstrip) begin = SpaceBefore(text, begin, from);
    if (token.rstrip) at = end = SpaceAfter(text, end);
    if (from < begin) out.push_back({text.substr(from, begin - from), -1});
    out.push_back({text.substr(begin, end - begin), token.id});
    from = end;
  }
  if (from < text.size()) out.push_back({text.substr(from), -1});
}

}  // namespace weft::text
