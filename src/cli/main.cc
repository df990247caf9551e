// weft: the command line. Builds every object and hands it down.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  using namespace weft;
  CLI::App app("weft runs large language models that are split over ranks, with one answer whatever the split.", "weft");
  app.set_version_flag("--version", cli::VersionLine());
  app.require_subcommand(1);
  struct Entry {
    const char* name;
    const char* summary;
    cli::Command (*add)(CLI::App&);
  };
  constexpr Entry kCommands[] = {{"run", "answer one prompt, or chat on a terminal", cli::AddRun},
                                 {"serve", "OpenAI's API over HTTP", cli::AddServe},
                                 {"explain", "the plan that a bucket runs, step by step", cli::AddExplain},
                                 {"bench", "measure: latency of a model, limits of this machine", cli::AddBench}};
  std::vector<std::pair<CLI::App*, cli::Command>> commands;
  for (const Entry& entry : kCommands) {
    CLI::App* sub = app.add_subcommand(entry.name, entry.summary);
    cli::Command command = entry.add(*sub);
    commands.emplace_back(sub, std::move(command));
  }
  std::vector<std::string> args = cli::Normalise(argc, argv);
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(args);
  } catch (const CLI::ExtrasError& error) {
    const auto chosen = app.get_subcommands();
    for (const std::string& arg : chosen.empty() ? app.remaining(true) : chosen[0]->remaining(true)) {
      if (!arg.starts_with("-")) continue;
      const std::string near = cli::NearestFlag(chosen.empty() ? app : *chosen[0], arg);
      fmt::print(stderr, "weft: unknown flag {}{}\n", arg, near.empty() ? "; --help lists them" : fmt::format("; did you mean {}?", near));
      return 2;
    }
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  for (auto& [sub, command] : commands) {
    if (sub->parsed()) return command();
  }
  return 2;
}
