#include "cli/progress_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace weft::cli {

void ProgressLine::Show(std::string_view step, std::string_view detail) {
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}{}\r", step, detail);
  } else if (step != last_) {
    fmt::print(stderr, "{}\n", step);
  }
  std::fflush(stderr);
  last_ = step;
}

void ProgressLine::Clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace weft::cli
