#include "cli/version.h"

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "plan/plan.h"

namespace weft::cli {

std::string VersionLine() {
  return fmt::format("weft {} (numerics {}, {})", kVersion, plan::kNumericsVersion,
                     kernels::NameOf(kernels::DetectIsa()));
}

}  // namespace weft::cli
