// weft bench waterfall: what each optimisation is worth on this machine, alone and among all
// others.
#pragma once

#include "cli/commands.h"

namespace weft::cli {

Command AddBenchWaterfall(CLI::App& app);

}  // namespace weft::cli
