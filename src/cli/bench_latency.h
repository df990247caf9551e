// weft bench latency: what a step costs.
#pragma once

#include "cli/commands.h"

namespace weft::cli {

Command AddBenchLatency(CLI::App& app);

}  // namespace weft::cli
