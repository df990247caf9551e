// weft bench schedules: what each communication schedule moves and takes, beside plain tensor
// parallelism.
#pragma once

#include "cli/commands.h"

namespace weft::cli {

Command AddBenchSchedules(CLI::App& app);

}  // namespace weft::cli
