// The commands; each registers its flags on an app and runs when that was chosen.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"

namespace CLI {
class App;
}

namespace weft::cli {

// Exit codes, besides 0 and 1 (what was asked for could not be done).
inline constexpr int kUsageError = 2;
inline constexpr int kEngineFailed = 70;  // sysexits.h: the engine broke while serving

// A command's body: the process's exit code.
using Command = std::function<int()>;

// The exit code of what ended so; an error is told on stderr, behind the command's name.
int ExitCode(std::string_view command, const Status& status);

Command AddRun(CLI::App& app);
Command AddServe(CLI::App& app);
Command AddExplain(CLI::App& app);
Command AddBench(CLI::App& app);

}  // namespace weft::cli
