// weft bench: measurements, each with the limits of the machine beside it.
#include <CLI/CLI.hpp>

#include "cli/bench_latency.h"
#include "cli/bench_machine.h"
#include "cli/bench_schedules.h"
#include "cli/bench_waterfall.h"
#include "cli/commands.h"

namespace weft::cli {

Command AddBench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* latency = app.add_subcommand("latency", "time of prefill and decode steps of a model");
  Command run_latency = AddBenchLatency(*latency);
  CLI::App* machine = app.add_subcommand("machine", "limits of this machine, written as a profile");
  Command run_machine = AddBenchMachine(*machine);
  CLI::App* schedules =
      app.add_subcommand("schedules", "bytes and times of communication schedules beside plain");
  Command run_schedules = AddBenchSchedules(*schedules);
  CLI::App* waterfall = app.add_subcommand(
      "waterfall", "what each optimisation is worth, alone and among all others");
  Command run_waterfall = AddBenchWaterfall(*waterfall);
  return [=] {
    if (machine->parsed()) return run_machine();
    if (schedules->parsed()) return run_schedules();
    return waterfall->parsed() ? run_waterfall() : run_latency();
  };
}

}  // namespace weft::cli
