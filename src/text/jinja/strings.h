// Python's str methods on UTF-8.
// Thread: pure functions.  REQUIRES everywhere: valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text::jinja {

// std::string::find() in linear time, whatever the strings are made of.
size_t FindText(std::string_view whole, std::string_view part, size_t from = 0);

bool IsPythonSpace(char32_t code);

// Without the characters of `chars` at the ends; chars == nullptr: white space.
std::string_view Strip(std::string_view text, const std::string* chars, bool left, bool right);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string Capitalize(std::string_view text);
// Each word's first letter upper, the others lower; `words_by_space`: as the filter does, else at
// each letter that follows no letter, as the method does.
std::string ToTitle(std::string_view text, bool words_by_space);

// At most `count` times; negative: all.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                        long long count);
// At white space (separator == nullptr) or at each separator; at most `splits`; negative: all.
std::vector<std::string> SplitText(std::string_view text, const std::string* separator,
                                   long long splits, bool from_right);
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

}  // namespace weft::text::jinja
