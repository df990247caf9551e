#include "text/stop_strings.h"

#include <algorithm>

namespace weft::text {
namespace {

std::vector<uint32_t> BordersOf(std::string_view text) {
  std::vector<uint32_t> border(text.size() + 1, 0);
  uint32_t length = 0;
  for (size_t n = 1; n < text.size(); ++n) {
    while (length > 0 && text[n] != text[length]) length = border[length];
    if (text[n] == text[length]) ++length;
    border[n + 1] = length;
  }
  return border;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops, bool include_stop_in_output)
    : include_(include_stop_in_output) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) continue;
    std::vector<uint32_t> border = BordersOf(stops[i]);
    stops_.push_back({.index = i, .text = std::move(stops[i]), .border = std::move(border)});
  }
}

bool StopStrings::Push(std::string_view text, std::string& out, bool may_stop) {
  if (found_) return true;
  if (stops_.empty()) {
    out += text;
    return false;
  }
  size_t hold = 0;
  for (const char c : text) {
    const Stop* complete = nullptr;
    hold = 0;
    for (Stop& stop : stops_) {
      while (stop.matched > 0 && stop.text[stop.matched] != c)
        stop.matched = stop.border[stop.matched];
      if (stop.text[stop.matched] == c) ++stop.matched;
      if (stop.matched == stop.text.size()) {
        if (may_stop && (!complete || stop.text.size() > complete->text.size())) complete = &stop;
        stop.matched = stop.border[stop.matched];
      }
      hold = std::max(hold, stop.matched);
    }
    held_ += c;
    if (complete) {
      out.append(held_, 0, held_.size() - (include_ ? 0 : complete->text.size()));
      held_.clear();
      found_ = complete->index;
      return true;
    }
  }
  if (!text.empty()) {
    out.append(held_, 0, held_.size() - hold);
    held_.erase(0, held_.size() - hold);
  }
  return false;
}

void StopStrings::Finish(std::string& out) {
  if (!found_) out += held_;
  held_.clear();
}

}  // namespace weft::text
