#include "serve/service.h"

#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <ctime>
#include <future>
#include <utility>

#include "serve/answers.h"
#include "serve/body_reader.h"
#include "serve/http/router.h"
#include "serve/http/server.h"
#include "serve/openai/models.h"
#include "serve/prometheus.h"
#include "serve/prompt.h"
#include "serve/shutdown.h"
#include "serve/worker_pool.h"
#include "text/tokenizer.h"

namespace weft::serve {
namespace {

using Clock = std::chrono::steady_clock;

// Bodies waiting for a worker; beyond, 429.
constexpr size_t kWorkerQueueMax = 1024;
// With requests running and no step for this long, the engine counts as hung.
constexpr std::chrono::seconds kNoProgressMax{60};
// What was written last is given this long to leave when the server stops.
constexpr std::chrono::milliseconds kFlushTime{1000};
HttpResponse ErrorOf(int status, std::string_view message) {
  return ToResponse({.status = status, .message = std::string(message)});
}

Status CheckOptions(const ServeOptions& options) {
  if (options.served_model_names.empty()) {
    return Status::Invalid("--served-model-name is empty; give at least one name");
  }
  if (options.threads < 1 || options.threads > 256) {
    return Status::Invalid("{} tokenizer threads; 1 to 256 are possible", options.threads);
  }
  for (const std::string& name : options.served_model_names) {
    if (name.empty()) return Status::Invalid("--served-model-name has an empty name");
  }
  for (const std::string& key : options.api_keys) {
    if (key.empty()) return Status::Invalid("--api-key is empty");
  }
  const int32_t stops = options.request.stop_strings_max;
  if (stops < 0 || stops > 16)
    return Status::Invalid("--max-stop-strings {} is not in 0..16", stops);
  return Status::Ok();
}

class ServerImpl final : public Server {
 public:
  ServerImpl(ServeOptions options, engine::Engine* engine, const text::Tokenizer* tokenizer,
             const text::ChatTemplate* chat_template, LogSink* log)
      : options_(std::move(options)), engine_(engine), log_(log), tokenizer_(tokenizer) {
    PromptBuilder builder;
    builder.tokenizer = tokenizer;
    builder.chat_template = chat_template;
    builder.max_model_len =
        options_.max_model_len > 0 ? options_.max_model_len : engine->config().max_model_len;
    builder.vocab_size = options_.vocab_size > 0 ? options_.vocab_size
                                                 : static_cast<int32_t>(tokenizer->vocab_size());
    models_ = {.names = options_.served_model_names,
               .max_model_len = builder.max_model_len,
               .vocab_size = builder.vocab_size,
               .created = std::time(nullptr)};
    reader_ = std::make_unique<BodyReader>(
        BodyReader::Options{.rules = {.limits = options_.request, .defaults = options_.sampling},
                            .builder = builder,
                            .models = &models_,
                            .body_bytes_max = options_.http.body_bytes_max,
                            .clamp_max_tokens = options_.clamp_max_tokens});
    if (options_.system_fingerprint.empty()) {
      options_.system_fingerprint = fmt::format("weft-{}", options_.version);
    }
  }

  ~ServerImpl() override { Shutdown(std::chrono::milliseconds(0)); }

  Status Prepare(Listener listener) {
    const bool loopback = listener.loopback();
    HttpHandlers handlers;
    handlers.gate = [this](const HttpRequest& request) { return router_->Gate(request); };
    handlers.handle = [this](std::shared_ptr<Exchange> exchange) {
      router_->Handle(std::move(exchange));
    };
    handlers.error = ErrorOf;
    handlers.decorate = [this](const HttpRequest& request, HttpResponse* response) {
      uint64_t& count = response->status >= 500   ? counts_.http_requests_5xx
                        : response->status >= 400 ? counts_.http_requests_4xx
                                                  : counts_.http_requests_2xx;
      ++count;
      router_->Decorate(request, response);
    };
    WEFT_ASSIGN_OR_RETURN(
        http_, HttpServer::Create(std::move(listener), options_.http, std::move(handlers), log_));
    answers_ = std::make_unique<Answers>(Answers::Context{.http = http_.get(),
                                                          .engine = engine_,
                                                          .tokenizer = tokenizer_,
                                                          .log = log_,
                                                          .in_flight = &in_flight_,
                                                          .limits = options_.request});
    router_ = std::make_unique<Router>(AccessRules{.api_keys = options_.api_keys,
                                                   .allowed_origins = options_.allowed_origins,
                                                   .host_names = options_.allowed_hosts,
                                                   .check_host = loopback},
                                       ErrorOf);
    AddRoutes();
    return Status::Ok();
  }

  Status Start() override {
    // A client that closes early must not end the process; a handler that the program set stays.
    struct sigaction pipe {};
    if (sigaction(SIGPIPE, nullptr, &pipe) == 0 && pipe.sa_handler == SIG_DFL) {
      pipe.sa_handler = SIG_IGN;
      sigaction(SIGPIPE, &pipe, nullptr);
    }
    pool_ = std::make_unique<WorkerPool>(static_cast<size_t>(options_.threads), kWorkerQueueMax);
    WEFT_RETURN_IF_ERROR(http_->Start());
    started_ = true;
    return Status::Ok();
  }

  int port() const override { return http_->port(); }
  size_t in_flight() const override { return in_flight_.count(); }

  bool Shutdown(std::chrono::milliseconds drain) override {
    if (!started_) return true;
    started_ = false;
    draining_.store(true, std::memory_order_relaxed);
    http_->Drain();
    const bool finished = in_flight_.WaitForNone(drain);
    // Ends the workers, so that no plan arrives any more, then everything that is still open.
    pool_.reset();
    std::promise<void> failed;
    http_->Post([this, &failed] {
      answers_->FailAll(FromStatus(Status::Unavailable("shutdown")));
      failed.set_value();
    });
    failed.get_future().wait();
    http_->Stop(kFlushTime);
    return finished;
  }

 private:
  void AddRoutes();
  void Get(std::string path, std::function<HttpResponse(const HttpRequest&)> answer,
           bool open = false);
  // `answer` runs on a worker.
  void Post(std::string path, std::function<HttpResponse(const std::string& body)> answer);
  void OnWorker(std::shared_ptr<Exchange> exchange,
                std::function<std::function<void(uint64_t id)>()> work);
  void Generate(std::shared_ptr<Exchange> exchange, Api api);
  HttpResponse Health(bool ready);
  std::string CacheSalt(const HttpRequest& request) const;

  ServeOptions options_;
  engine::Engine* engine_;
  LogSink* log_;
  const text::Tokenizer* tokenizer_;
  ServedModels models_;
  std::unique_ptr<BodyReader> reader_;
  InFlight in_flight_;
  std::atomic<bool> draining_{false};
  ServeCounts counts_;         // the loop's
  uint64_t health_steps_ = 0;  // the loop's: steps when health last saw them move, and when
  Clock::time_point health_moved_{};
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Answers> answers_;
  std::unique_ptr<WorkerPool> pool_;
  bool started_ = false;
};

void ServerImpl::Get(std::string path, std::function<HttpResponse(const HttpRequest&)> answer,
                     bool open) {
  router_->Add({.method = "GET",
                .path = std::move(path),
                .open = open,
                .handle = [answer = std::move(answer)](std::shared_ptr<Exchange> exchange) {
                  exchange->Send(answer(exchange->request()));
                }});
}

void ServerImpl::Post(std::string path, std::function<HttpResponse(const std::string&)> answer) {
  router_->Add({.method = "POST",
                .path = std::move(path),
                .handle = [this, answer = std::move(answer)](std::shared_ptr<Exchange> exchange) {
                  auto body = std::make_shared<std::string>(std::move(exchange->request().body));
                  OnWorker(std::move(exchange), [this, answer, body] {
                    auto response = std::make_shared<HttpResponse>(answer(*body));
                    return [this, response](uint64_t id) {
                      answers_->Reply(id, std::move(*response));
                    };
                  });
                }});
}

void ServerImpl::AddRoutes() {
  Get(
      "/health", [this](const HttpRequest&) { return Health(false); }, true);
  Get("/ping", [this](const HttpRequest&) { return Health(false); });
  Get("/ready", [this](const HttpRequest&) { return Health(true); });
  Get("/version", [this](const HttpRequest&) {
    return JsonResponse(Json(Json::Object{{"version", options_.version}}));
  });
  Get("/load", [this](const HttpRequest&) {
    return JsonResponse(Json(Json::Object{{"server_load", Json(uint64_t{answers_->count()})}}));
  });
  Get("/v1/models", [this](const HttpRequest&) { return JsonResponse(ModelList(models_)); });
  Get("/v1/models/*", [this](const HttpRequest& request) {
    const std::string name = request.path.substr(std::string_view("/v1/models/").size());
    if (!models_.Has(name)) return ToResponse(UnknownModel(name, models_.names));
    return JsonResponse(ModelCard(models_, name));
  });
  Get("/metrics", [this](const HttpRequest&) {
    counts_.disconnects = answers_->disconnects();
    counts_.connections = http_->connections();
    HttpResponse response;
    response.content_type = std::string(kPrometheusContentType);
    response.body =
        PrometheusText(engine_->Metrics(), counts_, models_.names.front(), models_.max_model_len);
    return response;
  });
  for (const Api api : {Api::kChat, Api::kCompletion}) {
    router_->Add({.method = "POST",
                  .path = api == Api::kChat ? "/v1/chat/completions" : "/v1/completions",
                  .handle = [this, api](std::shared_ptr<Exchange> exchange) {
                    Generate(std::move(exchange), api);
                  }});
  }
  Post("/tokenize", [this](const std::string& body) { return reader_->Tokenize(body); });
  Post("/detokenize", [this](const std::string& body) { return reader_->Detokenize(body); });
  for (const char* path : {"/apply-template", "/v1/chat/completions/render"}) {
    Post(path, [this](const std::string& body) { return reader_->RenderTemplate(body); });
  }
  for (const char* path : {"/v1/embeddings", "/v1/responses", "/v1/messages", "/rerank",
                           "/v1/rerank", "/score", "/v1/score", "/classify", "/pooling"}) {
    router_->Add({.method = "POST", .path = path, .handle = [](std::shared_ptr<Exchange> exchange) {
                    exchange->Send(ToResponse({.status = 501,
                                               .message = "This endpoint is not implemented.",
                                               .code = "not_implemented"}));
                  }});
  }
}

HttpResponse ServerImpl::Health(bool ready) {
  if (draining_.load(std::memory_order_relaxed))
    return ErrorOf(503, "The server is shutting down.");
  if (!engine_->Health().ok()) return ErrorOf(503, "The engine has failed.");
  const engine::MetricsSnapshot metrics = engine_->Metrics();
  const auto now = Clock::now();
  if (metrics.steps != health_steps_ || metrics.requests_running == 0) {
    health_steps_ = metrics.steps;
    health_moved_ = now;
  }
  if (now - health_moved_ > kNoProgressMax) return ErrorOf(503, "The engine makes no progress.");
  if (ready && metrics.requests_waiting >= engine_->config().queue_max) {
    return ErrorOf(503, "The queue is full.");
  }
  return JsonResponse(Json(Json::Object{{"status", "ok"}}));
}

// Runs `work` on a worker and what it returns on the loop, with the exchange's number.
void ServerImpl::OnWorker(std::shared_ptr<Exchange> exchange,
                          std::function<std::function<void(uint64_t)>()> work) {
  if (draining_.load(std::memory_order_relaxed)) {
    exchange->Send(ErrorOf(503, "The server is shutting down."));
    return;
  }
  const uint64_t id = answers_->Open(std::move(exchange));
  const bool taken = pool_->Submit([this, id, work = std::move(work)] {
    std::function<void(uint64_t)> then;
    try {
      then = work();
    } catch (const std::exception&) {  // only a library throws: memory is short
      then = [this](uint64_t answer) {
        answers_->Reply(answer, ErrorOf(503, "The server is out of memory for this request."));
      };
    }
    http_->Post([id, then = std::move(then)] { then(id); });
  });
  if (!taken) answers_->Reply(id, ErrorOf(429, "Too many requests are waiting; try again soon."));
}

// Blocks of one key's prompts are not visible, by their timing, to the holder of another.
std::string ServerImpl::CacheSalt(const HttpRequest& request) const {
  if (options_.share_prefix_cache || router_->keys().size() < 2) return "";
  return fmt::format("key-{}\n", router_->keys().Find(BearerKey(request)));
}

void ServerImpl::Generate(std::shared_ptr<Exchange> exchange, Api api) {
  HttpRequest& request = exchange->request();
  auto body = std::make_shared<std::string>(std::move(request.body));
  OnWorker(std::move(exchange),
           [this, api, body, request_id = request.id,
            salt = CacheSalt(request)]() -> std::function<void(uint64_t)> {
             auto plan = std::make_shared<AnswerPlan>();
             const std::optional<ApiError> error = reader_->MakePlan(api, *body, plan.get());
             body->clear();
             body->shrink_to_fit();
             if (error) {
               return [this, error](uint64_t id) { answers_->Reply(id, ToResponse(*error)); };
             }
             plan->head.id = fmt::format("{}{}", plan->format->id_prefix(), request_id);
             plan->head.model =
                 plan->params.model.empty() ? models_.names.front() : plan->params.model;
             plan->head.fingerprint = options_.system_fingerprint;
             plan->head.created = std::time(nullptr);
             plan->params.cache_salt = salt + plan->params.cache_salt;
             if (!plan->params.unknown.empty()) {
               std::string names;
               for (const std::string& name : plan->params.unknown) names += " " + Echo(name);
               log_->Debug("{}: unknown fields were left alone:{}", plan->head.id, names);
             }
             return [this, plan](uint64_t id) { answers_->Begin(id, std::move(*plan)); };
           });
}

}  // namespace

Result<Listener> Server::Bind(const ServeOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Listener listener, Listener::Bind(options.host, options.port));
  if (!listener.loopback() && options.api_keys.empty() && !options.insecure_no_auth) {
    return Status::Invalid(
        "--host {} can be reached from other machines and there is no --api-key; give one, or "
        "--insecure-no-auth if everybody may ask",
        options.host);
  }
  return listener;
}

Result<std::unique_ptr<Server>> Server::Create(ServeOptions options, Listener listener,
                                               engine::Engine* engine,
                                               const text::Tokenizer* tokenizer,
                                               const text::ChatTemplate* chat_template,
                                               LogSink* log) {
  WEFT_RETURN_IF_ERROR(CheckOptions(options));
  auto server =
      std::make_unique<ServerImpl>(std::move(options), engine, tokenizer, chat_template, log);
  WEFT_RETURN_IF_ERROR(server->Prepare(std::move(listener)));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace weft::serve
