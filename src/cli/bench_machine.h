// weft bench machine: the limits of this machine, as a table and as a profile.
#pragma once

#include "cli/commands.h"

namespace weft::cli {

Command AddBenchMachine(CLI::App& app);

}  // namespace weft::cli
