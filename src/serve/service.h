// The server: HTTP, the API and the engine bound together.
// Thread: Create, Start and Shutdown by the owner; the engine runs on its own thread (Engine::Run)
// and must still run during Shutdown, because what was accepted is being finished.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "engine/engine.h"
#include "serve/http/listener.h"
#include "serve/limits.h"
#include "serve/openai/params.h"

namespace weft::text {
class ChatTemplate;
class Tokenizer;
}  // namespace weft::text

namespace weft::serve {

struct ServeOptions {
  std::string host = "127.0.0.1";               // --host
  int port = 8000;                              // --port; 0: any free one, see Server::port()
  std::vector<std::string> served_model_names;  // --served-model-name; at least one
  std::vector<std::string> api_keys;            // --api-key; none: everybody may ask
  bool insecure_no_auth = false;                // allows a public host without a key
  std::vector<std::string> allowed_origins;     // --allowed-origins; none: CORS is off
  std::vector<std::string> allowed_hosts;       // --allowed-hosts, besides localhost and addresses
  bool share_prefix_cache = false;              // between API keys
  bool clamp_max_tokens = false;                // --max-tokens-overflow clamp
  HttpLimits http;
  RequestLimits request;
  SamplingDefaults sampling;  // of the model's generation_config.json
  int32_t max_model_len = 0;  // 0: the engine's
  int32_t vocab_size = 0;     // of the model; 0: the tokenizer's
  int threads = 2;            // for JSON, templates and tokenising
  std::string version = "0.1.0";
  std::string system_fingerprint;  // "": made of the version
};

class Server {
 public:
  // What can go wrong before there is a model: takes the port, and refuses a public host without a
  // key. Errors: kInvalid naming the flag, kUnavailable for a port that is taken.
  static Result<Listener> Bind(const ServeOptions& options);

  // `listener` is Bind()'s for these options. Everything else given outlives the server;
  // `chat_template` may be null. Errors: kInvalid naming the flag.
  static Result<std::unique_ptr<Server>> Create(ServeOptions options, Listener listener,
                                                engine::Engine* engine,
                                                const text::Tokenizer* tokenizer,
                                                const text::ChatTemplate* chat_template,
                                                LogSink* log);
  virtual ~Server() = default;

  // Listens and answers.
  virtual Status Start() = 0;
  virtual int port() const = 0;
  // Requests being answered.
  virtual size_t in_flight() const = 0;

  // Accepts nothing new, finishes what is in progress for at most `drain`, ends the rest with an
  // error, and stops. True: all was finished. Idempotent.
  virtual bool Shutdown(std::chrono::milliseconds drain) = 0;
};

}  // namespace weft::serve
