// weft serve: OpenAI's API over HTTP until a signal ends it.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/load.h"
#include "engine/engine.h"
#include "serve/service.h"

namespace weft::cli {
namespace {

struct ServeFlags {
  ModelFlags model;
  serve::ServeOptions serve;
  int shutdown_timeout_s = 30;
  int body_mib = 8;
  int request_timeout_s = 3600;
};

int Fail(const Status& status) {
  fmt::print(stderr, "weft serve: {}\n", status.message());
  return 1;
}

int Serve(ServeFlags& f) {
  const std::unique_ptr<LogSink> log = MakeLog(false);
  static const SteadyClock clock;
  // Every thread inherits the mask: only the wait below takes these signals.
  sigset_t signals;
  sigemptyset(&signals);
  for (int s : {SIGINT, SIGTERM}) sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto model = LoadModel(f.model, log.get());
  if (!model.ok()) return Fail(model.status());
  if (model->tokenizer == nullptr) return Fail(Status::Invalid("{} has no tokenizer; --tokenizer names one", model->name));
  auto exec_config = ExecConfigOf(f.model);
  if (!exec_config.ok()) return Fail(exec_config.status());
  auto executor = MakeExecutor(*model, *exec_config, log.get());
  if (!executor.ok()) return Fail(executor.status());
  auto engine_config = EngineConfigOf(f.model, model->eos_ids);
  if (!engine_config.ok()) return Fail(engine_config.status());
  auto engine = engine::Engine::Create(*engine_config, executor->get(), &clock, log.get());
  if (!engine.ok()) return Fail(engine.status());

  if (f.serve.served_model_names.empty()) f.serve.served_model_names = {model->name};
  if (const char* key = std::getenv("VLLM_API_KEY"); key != nullptr && *key != '\0' && f.serve.api_keys.empty()) f.serve.api_keys = {key};
  f.serve.http.body_bytes_max = static_cast<size_t>(f.body_mib) << 20;
  f.serve.request.request_time = std::chrono::seconds(f.request_timeout_s);
  f.serve.vocab_size = (*executor)->limits().vocab_size;
  const io::SamplingDefaults& defaults = model->checkpoint->config().sampling;
  f.serve.sampling.temperature = defaults.temperature.value_or(1.0);
  f.serve.sampling.top_p = defaults.top_p.value_or(1.0);
  f.serve.sampling.top_k = static_cast<int32_t>(defaults.top_k.value_or(0));
  auto server = serve::Server::Create(f.serve, engine->get(), model->tokenizer.get(), model->chat_template.get(), log.get());
  if (!server.ok()) return Fail(server.status());

  // The engine's loop is worker 0 of rank 0.
  std::thread loop([&] { (*engine)->Run(); });
  if (Status status = (*server)->Start(); !status.ok()) {
    (*engine)->Stop(false);
    loop.join();
    return Fail(status);
  }
  log->Info("{}", (*executor)->Describe());
  log->Info("{} on http://{}:{}/v1", f.serve.served_model_names.front(), f.serve.host, (*server)->port());
  // For scripts: the port on standard output, alone on its line.
  fmt::print("listening on http://{}:{}\n", f.serve.host, (*server)->port());
  std::fflush(stdout);

  int received = 0;
  sigwait(&signals, &received);
  log->Info("{}: finishing {} requests for at most {} s; a second signal ends at once", strsignal(received), (*server)->in_flight(), f.shutdown_timeout_s);
  std::thread([signals] {
    int again = 0;
    sigwait(&signals, &again);
    std::_Exit(130);
  }).detach();
  const bool drained = (*server)->Shutdown(std::chrono::seconds(f.shutdown_timeout_s));
  (*engine)->Stop(drained);
  loop.join();
  log->Info("{}", drained ? "all requests finished" : "time is up; the rest was ended");
  return 0;
}

}  // namespace

Command AddServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  AddModelFlags(app, &flags->model);
  serve::ServeOptions& s = flags->serve;
  app.add_option("--host", s.host, "address to listen on")->capture_default_str();
  app.add_option("--port", s.port, "0: any free one")->capture_default_str()->check(CLI::Range(0, 65535));
  app.add_option("--served-model-name", s.served_model_names, "name(s) in the API; default: --model");
  app.add_option("--api-key", s.api_keys, "required of clients; repeatable");
  app.add_flag("--insecure-no-auth", s.insecure_no_auth, "allow a public --host without a key");
  app.add_option("--allowed-origins", s.allowed_origins, "CORS; default none");
  app.add_option("--allowed-hosts", s.allowed_hosts, "Host names besides localhost and addresses");
  app.add_option("--max-body-mib", flags->body_mib, "largest request body")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--max-logprobs", s.request.logprobs_max)->capture_default_str()->check(CLI::Range(0, 20));
  app.add_option("--request-timeout", flags->request_timeout_s, "seconds")->capture_default_str()->check(CLI::Range(1, 1 << 30));
  app.add_option("--shutdown-timeout", flags->shutdown_timeout_s, "seconds to finish what is running after SIGTERM")->capture_default_str()->check(CLI::Range(0, 86400));
  app.add_option("--api-threads", s.threads, "threads for JSON, templates and tokenising")->capture_default_str()->check(CLI::Range(1, 256));
  return [flags] { return Serve(*flags); };
}

}  // namespace weft::cli
