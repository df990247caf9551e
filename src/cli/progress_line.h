// What a long measurement is at, on stderr: one line that is written over on a terminal, elsewhere
// a line for each step. Thread: the command's.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>

namespace weft::cli {

class ProgressLine {
 public:
  explicit ProgressLine(bool terminal = isatty(STDERR_FILENO) != 0) : terminal_(terminal) {}
  // `step` takes seconds; `detail`, which only a terminal shows, less.
  void Show(std::string_view step, std::string_view detail = "");
  // Before anything else is printed.
  void Clear();

 private:
  bool terminal_;
  std::string last_;
};

}  // namespace weft::cli
