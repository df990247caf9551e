// weft run: one prompt, or a chat on a terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/load.h"
#include "cli/run_flags.h"
#include "cli/session.h"
#include "engine/engine.h"

namespace weft::cli {
namespace {

Status Run(const RunFlags& f) {
  WEFT_RETURN_IF_ERROR(CheckRunFlags(f, isatty(STDIN_FILENO) != 0));
  // A person at a terminal sees what is loaded; scripts see warnings alone.
  const bool told = isatty(STDERR_FILENO) != 0 && !f.json;
  const std::unique_ptr<LogSink> log = f.verbose ? MakeLog(false) : told ? MakePlainLog() : MakeLog(true);
  const SteadyClock clock;
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig exec_config, ExecConfigOf(f.model, log.get()));
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(f.model, log.get()));
  FitToModel(f.model, model.checkpoint->config(), &exec_config);
  WEFT_ASSIGN_OR_RETURN(const auto executor, MakeExecutor(model, std::move(exec_config), log.get()));
  WEFT_RETURN_IF_ERROR(executor->PinCaller());
  WEFT_ASSIGN_OR_RETURN(engine::EngineConfig engine_config, EngineConfigOf(f.model, model.eos_ids));
  WEFT_ASSIGN_OR_RETURN(const auto engine, engine::Engine::Create(std::move(engine_config), executor.get(), &clock, log.get()));
  Session session(f, model, executor.get(), engine.get());
  return f.chats() ? session.Chat() : session.Once();
}

}  // namespace

Command AddRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  flags->model.max_num_seqs = 1;  // one person asks: less is set aside than for a server
  AddRunFlags(app, flags.get());
  AddModelFlags(app, &flags->model);
  AddEngineFlags(app, &flags->model);
  app.footer("weft run --model M --prompt 'Hello'     weft run --model M -tp 2 --prompt 'Hello' --json");
  return [flags] {
    const Status status = Run(*flags);
    if (!status.ok()) fmt::print(stderr, "weft run: {}\n", status.message());
    return status.ok() ? 0 : 1;
  };
}

}  // namespace weft::cli
