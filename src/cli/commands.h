// The commands; each registers its flags on an app and runs when that was chosen.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weft::cli {

// A command's body: the process's exit code.
using Command = std::function<int()>;

Command AddRun(CLI::App& app);
Command AddServe(CLI::App& app);
Command AddExplain(CLI::App& app);
Command AddBench(CLI::App& app);

}  // namespace weft::cli
