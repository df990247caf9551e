// Two texts side by side, as far as they differ.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace weft::support {

inline std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "-": in `before` alone, "+": in `after` alone, each with its line number; "" if they are equal.
// By the longest common subsequence, quadratic: for texts of some hundred lines.
inline std::string Diff(const std::string& before, const std::string& after) {
  if (before == after) return "";
  const std::vector<std::string> a = LinesOf(before), b = LinesOf(after);
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string out;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      out += "-" + std::to_string(i + 1) + ": " + a[i] + "\n";
      ++i;
    } else {
      out += "+" + std::to_string(j + 1) + ": " + b[j] + "\n";
      ++j;
    }
  }
  return out.empty() ? "they differ in line ends\n" : out;
}

}  // namespace weft::support
