// weft run: one prompt, or a chat on a terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/load.h"
#include "cli/run_flags.h"
#include "cli/session.h"
#include "cli/trace_file.h"
#include "engine/engine.h"
#include "exec/rank_executor.h"

namespace weft::cli {
namespace {

Status WriteTrace(const exec::StepTrace& trace, const plan::Executor& executor,
                  const std::string& model, TraceFile* file, LogSink* log) {
  file->Add(trace, exec::InstanceOf(executor).workers_per_rank());
  Json about;
  about.Set("model", model);
  about.Set("executor", executor.Describe());
  WEFT_RETURN_IF_ERROR(file->Close(about));
  log->Info("{} events in {}, which ui.perfetto.dev opens", file->events(), file->path());
  if (trace.dropped() > 0) {
    log->Warning(
        "--trace {}: it ends early; {} more events found no room behind the first {} of each "
        "worker (--trace-events)",
        file->path(), trace.dropped(), trace.capacity());
  }
  return Status::Ok();
}

Status Prompt(const RunFlags& f, comm::Link* link, LogSink* log) {
  const SteadyClock clock;
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig exec_config, ExecConfigOf(f.model, log));
  exec_config.link = link;
  std::unique_ptr<TraceFile> trace_file;
  if (!f.trace.empty()) {
    WEFT_ASSIGN_OR_RETURN(trace_file, TraceFile::Create(f.trace));
  }
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(f.model, log));
  FitToModel(f.model, model.checkpoint->config(), &exec_config);
  WEFT_ASSIGN_OR_RETURN(const auto executor, MakeExecutor(model, std::move(exec_config), log));
  WEFT_RETURN_IF_ERROR(executor->PinCaller());
  WEFT_ASSIGN_OR_RETURN(engine::EngineConfig engine_config, EngineConfigOf(f.model, model.eos_ids));
  WEFT_ASSIGN_OR_RETURN(const auto engine, engine::Engine::Create(std::move(engine_config),
                                                                  executor.get(), &clock, log));
  Session session(f, model, executor.get(), engine.get());
  if (trace_file == nullptr) {
    WEFT_RETURN_IF_ERROR(f.chats() ? session.Chat() : session.Once());
    return exec::EndFollowers(*executor);
  }
  const exec::ModelInstance& instance = exec::InstanceOf(*executor);
  exec::StepTrace trace(instance.config().ranks * instance.workers_per_rank(),
                        static_cast<size_t>(f.trace_events.value_or(kTraceEvents)));
  exec::SetTrace(*executor, &trace);
  const Status status = f.chats() ? session.Chat() : session.Once();
  exec::SetTrace(*executor, nullptr);
  // Also after a step that failed: who waited for whom is what one wants to see then.
  const Status written = WriteTrace(trace, *executor, model.name, trace_file.get(), log);
  WEFT_RETURN_IF_ERROR(status);
  WEFT_RETURN_IF_ERROR(written);
  return exec::EndFollowers(*executor);
}

Status Run(RunFlags& f) {
  WEFT_RETURN_IF_ERROR(CheckRunFlags(f, isatty(STDIN_FILENO) != 0));
  // A person at a terminal sees what is loaded; scripts see warnings alone.
  const bool told = isatty(STDERR_FILENO) != 0 && !f.json;
  const std::unique_ptr<LogSink> log = f.verbose ? MakeLog(false)
                                       : told    ? MakePlainLog()
                                                 : MakeLog(true);
  WEFT_ASSIGN_OR_RETURN(Job job, Job::Join(&f.model, log.get()));
  return job.Leave(job.follows() ? job.Follow(f.model, log.get())
                                 : Prompt(f, job.link(), log.get()));
}

}  // namespace

Command AddRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  flags->model.max_num_seqs = 1;  // one person asks: less is set aside than for a server
  AddRunFlags(app, flags.get());
  AddModelFlags(app, &flags->model);
  AddEngineFlags(app, &flags->model);
  app.footer(
      "weft run --model M --prompt 'Hello'     weft run --model M -tp 2 --prompt 'Hello' --json");
  return [flags] { return ExitCode("run", Run(*flags)); };
}

}  // namespace weft::cli
