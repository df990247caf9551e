// Connections, limits and the wire form of HTTP/1.1. One thread, the loop, does all of it and runs
// the handlers, which therefore must not compute: what takes long goes to a WorkerPool and comes
// back by Post(). So /health answers while a prompt of a megabyte is tokenised.
//
// Thread: Create, Start, Drain, Stop by the owner; Post and port by any; handlers run on the loop.
// Boost is behind the .cc files of http/ and connection.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "serve/http/exchange.h"
#include "serve/http/listener.h"
#include "serve/limits.h"

namespace weft::serve {

struct HttpHandlers {
  // Looks at the head, before the body is read; an answer here refuses the request.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> gate;
  std::function<void(std::shared_ptr<Exchange>)> handle;
  // The body of an error that HTTP itself finds (413, 431, ...), and headers of every answer.
  std::function<HttpResponse(int status, std::string_view message)> error;
  std::function<void(const HttpRequest&, HttpResponse*)> decorate;
};

class HttpServer {
 public:
  // `listener` is bound. `log` outlives the server. Errors: kUnavailable.
  static Result<std::unique_ptr<HttpServer>> Create(Listener listener, const HttpLimits& limits,
                                                    HttpHandlers handlers, LogSink* log);
  virtual ~HttpServer() = default;

  // Listens, starts the loop's thread and accepts.
  virtual Status Start() = 0;
  virtual int port() const = 0;

  virtual void Post(std::function<void()> task) = 0;
  virtual void After(std::chrono::milliseconds delay, std::function<void()> task) = 0;

  // Accepts no more; idle connections are closed, busy ones after their answer.
  virtual void Drain() = 0;
  // Sends what is queued for at most `grace`, closes everything and joins the loop. Idempotent.
  virtual void Stop(std::chrono::milliseconds grace) = 0;

  virtual size_t connections() const = 0;
};

}  // namespace weft::serve
