#include "cli/bench_machine.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "cli/machine_limits.h"
#include "device/memory.h"

namespace weft::cli {
namespace {

struct MachineFlags {
  MachineOptions options;
  std::string out;
  bool json = false;
};

int Machine(const MachineFlags& flags) {
  auto limits = MeasureMachine(flags.options);
  if (!limits.ok()) return ExitCode("bench machine", limits.status());
  const std::string profile = DumpJson(ToJson(*limits), {.indent = 1});
  if (!flags.out.empty()) {
    std::ofstream file(flags.out);
    file << profile << '\n';
    if (!file.flush()) {
      fmt::print(stderr, "weft bench machine: cannot write {}\n", flags.out);
      return 1;
    }
  }
  if (flags.json) {
    fmt::print("{}\n", profile);
    return 0;
  }
  fmt::print("{}; {}; {}\n", limits->cpu, limits->topology, limits->isa);
  fmt::print("{:<20} {:>8} {:>12} {:>10} {:>10} {:<8} {}\n", "limit", "threads", "bytes", "best",
             "median", "unit", "how");
  for (const Limit& l : limits->limits) {
    fmt::print("{:<20} {:>8} {:>12} {:>10.1f} {:>10.1f} {:<8} {}\n", l.name, l.threads,
               l.bytes > 0 ? device::FormatBytes(l.bytes) : "-", l.value, l.median, l.unit, l.how);
  }
  if (!flags.out.empty()) fmt::print("written to {}\n", flags.out);
  return 0;
}

}  // namespace

Command AddBenchMachine(CLI::App& app) {
  auto flags = std::make_shared<MachineFlags>();
  app.add_option("--threads", flags->options.threads,
                 "thread counts; default: 1, 2, 4, ..., every core")
      ->delimiter(',');
  app.add_option("--seconds", flags->options.seconds, "time for each figure")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  app.add_option("--bytes", flags->options.bytes, "largest working set, of all threads")
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--output", flags->out, "write the profile here, as profiles/NAME.json");
  app.add_flag("--json", flags->json, "print the profile instead of the table");
  return [flags] { return Machine(*flags); };
}

}  // namespace weft::cli
