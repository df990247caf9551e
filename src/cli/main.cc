// weft: the command line. Builds every object and hands it down.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  using namespace weft;
  CLI::App app(
      "weft runs large language models that are split over ranks, with one answer whatever the "
      "split.",
      "weft");
  app.set_version_flag("--version", cli::VersionLine(), "print the version and what this CPU runs");
  app.set_help_flag("-h,--help", "print this");
  app.formatter(cli::MakeHelpFormatter());  // before the commands, which inherit it
  app.require_subcommand(1);
  struct Entry {
    const char* name;
    const char* summary;
    cli::Command (*add)(CLI::App&);
  };
  constexpr Entry kCommands[] = {
      {"run", "answer one prompt, or chat on a terminal", cli::AddRun},
      {"serve", "OpenAI's API over HTTP", cli::AddServe},
      {"explain", "the plan that a bucket runs, step by step", cli::AddExplain},
      {"bench", "measure: latency of a model, limits of this machine", cli::AddBench}};
  std::vector<std::pair<CLI::App*, cli::Command>> commands;
  for (const Entry& entry : kCommands) {
    CLI::App* sub = app.add_subcommand(entry.name, entry.summary);
    cli::Command command = entry.add(*sub);
    commands.emplace_back(sub, std::move(command));
  }
  app.footer("Each command explains its flags: weft COMMAND --help");
  std::vector<std::string> words = cli::Normalise(argc, argv);
  if (words.empty()) {
    fmt::print(stderr, "{}", app.help());
    return cli::kUsageError;
  }
  if (const std::string wrong = cli::CheckCommand(app, words); !wrong.empty()) {
    fmt::print(stderr, "{}\n", wrong);
    return cli::kUsageError;
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}\n", cli::Explain(app, error));
    return cli::kUsageError;
  }
  for (auto& [sub, command] : commands) {
    if (sub->parsed()) return command();
  }
  return cli::kUsageError;
}
