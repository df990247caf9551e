#include "cli/commands.h"

#include <fmt/format.h>

#include <cstdio>

namespace weft::cli {

int ExitCode(std::string_view command, const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "weft {}: {}\n", command, status.message());
  return 1;
}

}  // namespace weft::cli
