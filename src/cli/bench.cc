// weft bench: measurements, each with the limits of the machine beside it.
#include <CLI/CLI.hpp>

#include "cli/bench_latency.h"
#include "cli/commands.h"

namespace weft::cli {

Command AddBench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* latency = app.add_subcommand("latency", "time of prefill and decode steps of a model");
  Command run_latency = AddBenchLatency(*latency);
  return [run_latency] { return run_latency(); };
}

}  // namespace weft::cli
