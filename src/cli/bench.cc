// weft bench: measurements, each with the limits of the machine beside it.
#include <CLI/CLI.hpp>

#include "cli/bench_latency.h"
#include "cli/bench_machine.h"
#include "cli/bench_schedules.h"
#include "cli/commands.h"

namespace weft::cli {

Command AddBench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* latency = app.add_subcommand("latency", "time of prefill and decode steps of a model");
  Command run_latency = AddBenchLatency(*latency);
  CLI::App* machine = app.add_subcommand("machine", "limits of this machine, written as a profile");
  Command run_machine = AddBenchMachine(*machine);
  CLI::App* schedules = app.add_subcommand("schedules", "bytes and times of communication schedules beside plain");
  Command run_schedules = AddBenchSchedules(*schedules);
  return [=] { return machine->parsed() ? run_machine() : schedules->parsed() ? run_schedules() : run_latency(); };
}

}  // namespace weft::cli
