// weft serve: OpenAI's API over HTTP until a signal ends it.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/load.h"
#include "cli/version.h"
#include "engine/engine.h"
#include "exec/rank_executor.h"
#include "serve/service.h"

namespace weft::cli {
namespace {

// For answers with the reason to leave, once the engine has failed.
constexpr std::chrono::milliseconds kLastWords{1000};

struct ServeFlags {
  ModelFlags model;
  serve::ServeOptions serve;
  std::string max_tokens_overflow = "error";
  int shutdown_timeout_s = 30;
  int body_mib = 8;
  int request_timeout_s = 3600;
};

// SIGINT and SIGTERM, for which this thread waits, and the engine's own word that it has ended.
constexpr int kEngineEnded = SIGUSR1;
sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int s : {SIGINT, SIGTERM, kEngineEnded}) sigaddset(&signals, s);
  return signals;
}

// Until `stop`, a signal ends the process at once: for the time in which nothing is served yet.
void ExitOnSignal(const sigset_t& signals, const std::atomic<bool>& stop) {
  constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 10'000'000};
  while (!stop.load(std::memory_order_relaxed)) {
    const int received = sigtimedwait(&signals, nullptr, &kLook);
    if (received == SIGINT || received == SIGTERM) std::_Exit(128 + received);
  }
}

void FillOptions(const ServeFlags& f, const LoadedModel& model, const plan::Executor& executor,
                 serve::ServeOptions* s) {
  if (s->served_model_names.empty()) s->served_model_names = {model.name};
  s->version = kVersion;
  s->http.body_bytes_max = static_cast<size_t>(f.body_mib) << 20;
  s->request.request_time = std::chrono::seconds(f.request_timeout_s);
  s->clamp_max_tokens = f.max_tokens_overflow == "clamp";
  s->vocab_size = executor.limits().vocab_size;
  const io::SamplingDefaults& defaults = model.checkpoint->config().sampling;
  s->sampling.temperature = defaults.temperature.value_or(1.0);
  s->sampling.top_p = defaults.top_p.value_or(1.0);
  s->sampling.top_k = static_cast<int32_t>(defaults.top_k.value_or(0));
}

// Until a signal, or until the engine has ended by itself. Returns the signal.
int WaitForEnd(const sigset_t& signals, const engine::Engine& engine) {
  int received = 0;
  do {
    sigwait(&signals, &received);
  } while (received == kEngineEnded && engine.Health().ok());  // somebody else's SIGUSR1
  return received;
}

// What rank 0, or a process that is alone, does until a signal. `serving` is set when somebody is
// served.
Result<int> Lead(ServeFlags& f, const Job& job, const sigset_t& signals, std::atomic<bool>& serving,
                 LogSink* log) {
  const SteadyClock clock;
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig exec_config, ExecConfigOf(f.model, log));
  exec_config.link = job.link();
  if (const char* key = std::getenv("VLLM_API_KEY");
      key != nullptr && *key != '\0' && f.serve.api_keys.empty())
    f.serve.api_keys = {key};
  // Before the model, which takes long: who has waited for it should not hear of a taken port then.
  WEFT_ASSIGN_OR_RETURN(serve::Listener listener, serve::Server::Bind(f.serve));
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(f.model, log));
  FitToModel(f.model, model.checkpoint->config(), &exec_config);
  if (model.tokenizer == nullptr)
    return Status::Invalid("{} has no tokenizer; --tokenizer names one", model.name);
  WEFT_ASSIGN_OR_RETURN(auto executor, MakeExecutor(model, std::move(exec_config), log));
  WEFT_ASSIGN_OR_RETURN(engine::EngineConfig engine_config, EngineConfigOf(f.model, model.eos_ids));
  WEFT_ASSIGN_OR_RETURN(
      auto engine, engine::Engine::Create(std::move(engine_config), executor.get(), &clock, log));
  FillOptions(f, model, *executor, &f.serve);
  WEFT_ASSIGN_OR_RETURN(
      auto server, serve::Server::Create(f.serve, std::move(listener), engine.get(),
                                         model.tokenizer.get(), model.chat_template.get(), log));

  // The engine's loop is worker 0 of rank 0.
  std::thread loop([&engine, &executor, log, self = pthread_self()] {
    if (Status pinned = executor->PinCaller(); !pinned.ok())
      log->Warning("not pinned: {}", pinned.message());
    engine->Run();
    if (!engine->Health().ok()) pthread_kill(self, kEngineEnded);
  });
  if (Status status = server->Start(); !status.ok()) {
    engine->Stop(false);
    loop.join();
    return status;
  }
  log->Info("{}", executor->Describe());
  log->Info("{} on http://{}:{}/v1", f.serve.served_model_names.front(), f.serve.host,
            server->port());
  // For scripts: the port on standard output, alone on its line.
  fmt::print("listening on http://{}:{}\n", f.serve.host, server->port());
  std::fflush(stdout);

  serving.store(true, std::memory_order_relaxed);
  const int received = WaitForEnd(signals, *engine);
  if (const Status health = engine->Health(); !health.ok()) {
    log->Error("the engine has failed: {}", health.message());
    server->Shutdown(kLastWords);
    // Not through the destructors: a rank that hangs would be waited for without end.
    std::fflush(nullptr);
    std::_Exit(kEngineFailed);
  }
  log->Info("{}: finishing {} requests for at most {} s; a second signal ends at once",
            strsignal(received), server->in_flight(), f.shutdown_timeout_s);
  std::atomic<bool> ended{false};
  std::thread second([&] { ExitOnSignal(signals, ended); });
  const bool drained = server->Shutdown(std::chrono::seconds(f.shutdown_timeout_s));
  engine->Stop(drained);
  loop.join();
  log->Info("{}", drained ? "all requests finished" : "time is up; the rest was ended");
  ended.store(true, std::memory_order_relaxed);
  second.join();
  WEFT_RETURN_IF_ERROR(exec::EndFollowers(*executor));
  return 0;
}

Result<int> Serve(ServeFlags& f) {
  const std::unique_ptr<LogSink> log = MakeLog(false);
  // Every thread inherits the mask: only the waits here take these signals.
  const sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::atomic<bool> serving{false};
  std::thread impatient([&] { ExitOnSignal(signals, serving); });
  // Also on every early return.
  const auto joined = [&](std::thread* thread) {
    serving.store(true, std::memory_order_relaxed);
    thread->join();
  };
  const std::unique_ptr<std::thread, decltype(joined)> loading(&impatient, joined);

  WEFT_ASSIGN_OR_RETURN(Job job, Job::Join(&f.model, log.get()));
  if (job.follows()) {
    // Rank 0 takes the signals that mpirun hands to all, and ends the others when it has finished.
    serving.store(true, std::memory_order_relaxed);
    WEFT_RETURN_IF_ERROR(job.Leave(job.Follow(f.model, log.get())));
    return 0;
  }
  const Result<int> code = Lead(f, job, signals, serving, log.get());
  WEFT_RETURN_IF_ERROR(job.Leave(code.ok() ? Status() : code.status()));
  return code;
}

}  // namespace

Command AddServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  serve::ServeOptions& s = flags->serve;
  const char* http = "HTTP";
  app.add_option("--host", s.host, "address to listen on")
      ->type_name("ADDRESS")
      ->check(NotEmpty())
      ->capture_default_str()
      ->group(http);
  app.add_option("--port", s.port, "0: any free one")
      ->type_name("N")
      ->check(Between(0, 65535))
      ->capture_default_str()
      ->group(http);
  app.add_option("--served-model-name", s.served_model_names,
                 "name(s) in the API [what --model says]")
      ->type_name("NAME...")
      ->check(NotEmpty())
      ->group(http);
  app.add_option("--api-key", s.api_keys, "required of clients; repeatable [$VLLM_API_KEY]")
      ->type_name("KEY")
      ->check(NotEmpty())
      ->group(http);
  app.add_flag("--insecure-no-auth", s.insecure_no_auth, "allow a public --host without a key")
      ->group(http);
  app.add_flag("--share-prefix-cache", s.share_prefix_cache,
               "between the holders of different keys")
      ->group(http);
  app.add_option("--allowed-origins", s.allowed_origins, "web pages that may ask (CORS) [none]")
      ->type_name("ORIGIN...")
      ->group(http);
  app.add_option("--allowed-hosts", s.allowed_hosts, "Host names besides localhost and addresses")
      ->type_name("NAME...")
      ->group(http);
  app.add_option("--api-threads", s.threads, "threads for JSON, templates and tokenising")
      ->type_name("N")
      ->check(Between(1, 256))
      ->capture_default_str()
      ->group(http);

  const char* limits = "Limits";
  const auto add = [&](const char* name, auto* value, double low, double high, const char* takes,
                       const char* text) {
    app.add_option(name, *value, text)
        ->type_name(takes)
        ->check(Between(low, high))
        ->capture_default_str()
        ->group(limits);
  };
  add("--max-connections", &s.http.connections_max, 1, 1e6, "N", "open at once");
  add("--max-body-mib", &flags->body_mib, 1, 1024, "N", "largest request body");
  add("--max-logprobs", &s.request.logprobs_max, 0, 20, "N", "that a request may ask for");
  add("--max-stop-strings", &s.request.stop_strings_max, 0, 16, "N", "of one request");
  app.add_option("--max-tokens-overflow", flags->max_tokens_overflow,
                 "a request that asks for more than the context holds: error or clamp")
      ->type_name("WHAT")
      ->check(CLI::Validator(
          [](std::string& text) {
            return text == "error" || text == "clamp"
                       ? std::string()
                       : fmt::format("'{}' must be error or clamp", text);
          },
          ""))
      ->capture_default_str()
      ->group(limits);
  add("--request-timeout", &flags->request_timeout_s, 1, 1 << 30, "SECONDS", "of one request");
  add("--shutdown-timeout", &flags->shutdown_timeout_s, 0, 86400, "SECONDS",
      "to finish what runs after SIGTERM");
  AddModelFlags(app, &flags->model);
  AddEngineFlags(app, &flags->model);
  app.footer("weft serve --model M --port 8000     exit code 70: the engine failed while serving");
  return [flags] {
    const Result<int> code = Serve(*flags);
    return code.ok() ? *code : ExitCode("serve", code.status());
  };
}

}  // namespace weft::cli
