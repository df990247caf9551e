// A server without an API: it echoes, streams, holds back and breaks off, so that tests of the wire
// need nothing else.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http/server.h"
#include "serve/raw_client.h"

namespace weft::serve {

using std::chrono::milliseconds;

// Echoes bodies; "/stream" streams until the test says stop; "/hold" keeps its exchange.
class EchoServer {
 public:
  explicit EchoServer(HttpLimits limits = {}) {
    HttpHandlers handlers;
    handlers.gate = [](const HttpRequest& request) -> std::optional<HttpResponse> {
      if (request.path == "/forbidden") return HttpResponse{.status = 403, .body = "no"};
      return std::nullopt;
    };
    handlers.handle = [this](std::shared_ptr<Exchange> exchange) { Handle(std::move(exchange)); };
    handlers.error = [](int status, std::string_view message) {
      return HttpResponse{.status = status, .body = std::string(message)};
    };
    handlers.decorate = [](const HttpRequest&, HttpResponse*) {};
    auto listener = Listener::Bind("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    auto made = HttpServer::Create(std::move(*listener), limits, std::move(handlers), &log_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    http_ = std::move(*made);
    EXPECT_TRUE(http_->Start().ok());
  }
  ~EchoServer() {
    http_->Post([this] { held_.clear(); });
    http_->Stop(milliseconds(200));
  }

  int port() const { return http_->port(); }
  HttpServer& http() { return *http_; }
  bool WaitGone(int count) {
    for (int i = 0; i < 500 && gone_ < count; ++i) std::this_thread::sleep_for(milliseconds(10));
    return gone_ >= count;
  }
  int gone() const { return gone_; }
  void AnswerHeld() {
    http_->Post([this] {
      for (auto& exchange : held_) exchange->Send({.content_type = "text/plain", .body = "late"});
      held_.clear();
    });
  }
  void DropHeld() {
    http_->Post([this] { held_.clear(); });
  }

 private:
  void Handle(std::shared_ptr<Exchange> exchange) {
    const HttpRequest& request = exchange->request();
    exchange->OnGone([this] { ++gone_; });
    if (request.path == "/hold") {
      held_.push_back(std::move(exchange));
    } else if (request.path == "/stream") {
      exchange->BeginStream({.content_type = "text/plain"});
      exchange->Write("a");
      exchange->Write("bc");
      exchange->End();
    } else if (request.path == "/broken") {
      exchange->BeginStream({.content_type = "text/plain"});
      exchange->Write("half");
      exchange->Fail();
    } else if (request.path == "/endless") {
      exchange->BeginStream({.content_type = "text/plain"});
      Pour(std::move(exchange));
    } else {
      exchange->Send({.content_type = "text/plain", .body = request.path + ":" + request.body});
    }
  }
  void Pour(std::shared_ptr<Exchange> exchange) {
    if (!exchange->Write(std::string(8192, 'x'))) return;
    http_->After(milliseconds(1), [this, exchange] { Pour(exchange); });
  }

  NullLog log_;
  std::vector<std::shared_ptr<Exchange>> held_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> http_;
};

}  // namespace weft::serve
