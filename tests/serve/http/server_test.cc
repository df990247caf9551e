// The wire, by raw sockets: framing, limits, keep-alive, disconnects.
#include "serve/http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "serve/raw_client.h"

namespace weft::serve {
namespace {

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
    auto made = HttpServer::Create({.port = 0, .limits = limits}, std::move(handlers), &log_);
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

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  EchoServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.Post("/echo", "body" + std::to_string(i));
    const RawAnswer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "/echo:body" + std::to_string(i));
  }
  client.Post("/echo", "last", "Connection: close\r\n");
  EXPECT_EQ(client.Read().body, "/echo:last");
  EXPECT_TRUE(client.Ended());
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  EchoServer server;
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    if (i % 10 == 3) all += "GET /forbidden HTTP/1.1\r\nHost: a\r\n\r\n";
  }
  client.Send(all);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.Read().body, "/" + std::to_string(i) + ":");
    if (i % 10 == 3) {
      EXPECT_EQ(client.Read().status, 403);
    }
  }
}

TEST(HttpServer, HowTheBytesAreCutDoesNotMatter) {
  EchoServer server;
  const std::string length = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
  const std::string chunked =
      "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=value\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
  for (const std::string& request : {length, chunked}) {
    RawClient client(server.port());
    for (size_t cut = 1; cut < request.size(); cut += 3) {
      client.Send(request.substr(0, cut));
      std::this_thread::sleep_for(milliseconds(1));
      client.Send(request.substr(cut));
      const RawAnswer answer = client.Read();
      ASSERT_EQ(answer.status, 200) << cut;
      ASSERT_EQ(answer.body.substr(2), ":hello") << cut;
    }
  }
}

TEST(HttpServer, StreamsInChunksAndAsPlainBytesForHttp10) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/stream");
  RawAnswer answer = client.Read();
  EXPECT_EQ(answer.Header("Transfer-Encoding"), "chunked");
  EXPECT_EQ(answer.body, "abc");
  client.Get("/echo");
  EXPECT_EQ(client.Read().body, "/echo:");

  RawClient old(server.port());
  old.Send("GET /stream HTTP/1.0\r\n\r\n");
  answer = old.Read();
  EXPECT_EQ(answer.Header("Transfer-Encoding"), "");
  EXPECT_EQ(answer.body, "abc");
  EXPECT_TRUE(old.Ended());
}

TEST(HttpServer, ABrokenStreamHasNoLastChunk) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/broken");
  const RawAnswer answer = client.Read();
  EXPECT_EQ(answer.body, "half");
  EXPECT_FALSE(answer.complete);
  EXPECT_TRUE(client.Ended());
}

TEST(HttpServer, LimitsEndInTheirOwnStatus) {
  HttpLimits limits;
  limits.body_bytes_max = 1000;
  EchoServer server(limits);
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  struct Case {
    std::string bytes;
    int status;
  };
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  const std::vector<Case> cases = {
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(9000, 'a') + "\r\n\r\n", 431},
      {"GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
      {"GET / HTTP/1.1\r\nX: " + std::string(40000, 'a'), 431},
      {post + "Content-Length: 1001\r\n\r\n", 413},
      {post + "Content-Length: 9223372036854775808\r\n\r\n", 413},
      {chunked + "3e9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n", 413},
      {chunked + "-2\r\nab\r\n0\r\n\r\n", 400},
      {chunked + "fffffffffffffffff\r\n", 400},
      {chunked + "zz\r\n", 400},
      {chunked + "1;" + std::string(60000, 'e'), 400},
      {post + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na", 415},
      {post + "Expect: miracles\r\nContent-Length: 1\r\n\r\na", 417},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"hello\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01\r\n\r\n", 10), 400},
      {"GET /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 403},
  };
  for (const Case& c : cases) {
    RawClient client(server.port());
    client.Send(c.bytes);
    const RawAnswer answer = client.Read();
    EXPECT_EQ(answer.status, c.status) << c.bytes.substr(0, 80);
    client.CloseWriting();
    EXPECT_TRUE(client.Ended()) << c.bytes.substr(0, 80);
  }
}

TEST(HttpServer, TinyChunksAreCounted) {
  HttpLimits limits;
  limits.chunks_max = 100;
  EchoServer server(limits);
  for (const int chunks : {100, 101}) {
    RawClient client(server.port());
    std::string bytes = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < chunks - 1; ++i) bytes += "1\r\na\r\n";
    client.Send(bytes + "0\r\n\r\n");
    EXPECT_EQ(client.Read().status, chunks <= 100 ? 200 : 400) << chunks;
  }
}

TEST(HttpServer, ABodyTooLargeIsRefusedWhileItIsStillBeingSent) {
  HttpLimits limits;
  limits.body_bytes_max = 1000;
  EchoServer server(limits);
  RawClient client(server.port());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
  client.Send(std::string(300000, 'a'));
  EXPECT_EQ(client.Read().status, 413);
}

TEST(HttpServer, ContinueIsSentWhenItIsWaitedFor) {
  EchoServer server;
  RawClient client(server.port());
  client.Send("POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Read(true).status, 100);
  client.Send("ok");
  EXPECT_EQ(client.Read().body, "/e:ok");
  // Refused before the body: no invitation to send it.
  client.Send("POST /forbidden HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Read(true).status, 403);
}

TEST(HttpServer, SlowHeadsAndBodiesTimeOut) {
  HttpLimits limits;
  limits.head_time = milliseconds(150);
  limits.body_grace = milliseconds(150);
  limits.idle_time = milliseconds(300);
  limits.linger = milliseconds(50);
  EchoServer server(limits);
  RawClient head(server.port());
  head.Send("GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(head.Read().status, 408);
  EXPECT_TRUE(head.Ended());
  RawClient body(server.port());
  body.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
  EXPECT_EQ(body.Read().status, 408);
  RawClient idle(server.port());
  idle.Get("/");
  EXPECT_EQ(idle.Read().status, 200);
  EXPECT_TRUE(idle.Ended());
  EXPECT_EQ(idle.buffer(), "");
}

TEST(HttpServer, ABodyCutShortIsAnError) {
  EchoServer server;
  RawClient client(server.port());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
  client.CloseWriting();
  EXPECT_EQ(client.Read().status, 400);
}

TEST(HttpServer, AClientThatResetsOrClosesIsNoticedWhileItWaits) {
  EchoServer server;
  RawClient reset(server.port());
  reset.Get("/hold");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(server.gone(), 0);
  reset.Reset();
  EXPECT_TRUE(server.WaitGone(1));
  RawClient closed(server.port());
  closed.Get("/hold");
  std::this_thread::sleep_for(milliseconds(50));
  closed.Close();
  EXPECT_TRUE(server.WaitGone(2));
  RawClient pipelined(server.port());
  pipelined.Get("/hold");
  pipelined.Send(std::string(200000, 'x'));  // more than is read ahead
  std::this_thread::sleep_for(milliseconds(50));
  pipelined.Reset();
  EXPECT_TRUE(server.WaitGone(3));
}

TEST(HttpServer, AHalfClosedClientStillGetsItsAnswer) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/hold");
  client.CloseWriting();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(server.gone(), 0);
  server.AnswerHeld();
  EXPECT_EQ(client.Read().body, "late");
}

TEST(HttpServer, ASlowReaderIsCutOffAndNobodyElseSuffers) {
  HttpLimits limits;
  limits.stream_queue_bytes_max = 64u << 10;
  EchoServer server(limits);
  RawClient slow(server.port(), 4096);
  slow.Get("/endless");
  RawClient other(server.port());
  other.Get("/echo");
  EXPECT_EQ(other.Read().status, 200);
  EXPECT_TRUE(server.WaitGone(1));
}

TEST(HttpServer, ADroppedExchangeIsAnInternalError) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/hold");
  std::this_thread::sleep_for(milliseconds(50));
  server.DropHeld();
  EXPECT_EQ(client.Read().status, 500);
}

TEST(HttpServer, HeadGetsTheLengthAndNoBody) {
  EchoServer server;
  RawClient client(server.port());
  client.Send("HEAD /abc HTTP/1.1\r\nHost: a\r\n\r\n");
  const RawAnswer answer = client.Read(false, true);
  EXPECT_EQ(answer.Header("Content-Length"), "5");
  client.Get("/x");
  EXPECT_EQ(client.Read().body, "/x:");
}

TEST(HttpServer, DrainingFinishesWhatWasBegunAndTakesNothingNew) {
  EchoServer server;
  RawClient busy(server.port());
  busy.Get("/hold");
  RawClient idle(server.port());
  idle.Get("/");
  EXPECT_EQ(idle.Read().status, 200);
  server.http().Drain();
  EXPECT_TRUE(idle.Ended());
  RawClient late(server.port());
  EXPECT_FALSE(late.connected());
  server.AnswerHeld();
  EXPECT_EQ(busy.Read().body, "late");
  EXPECT_TRUE(busy.Ended());
}

TEST(HttpServer, MoreConnectionsThanAllowedWaitTheirTurn) {
  HttpLimits limits;
  limits.connections_max = 2;
  EchoServer server(limits);
  auto first = std::make_unique<RawClient>(server.port());
  RawClient second(server.port());
  first->Get("/1");
  EXPECT_EQ(first->Read().status, 200);
  second.Get("/2");
  EXPECT_EQ(second.Read().status, 200);
  RawClient third(server.port());
  third.Get("/3");
  EXPECT_FALSE(third.More(200));
  first.reset();
  EXPECT_EQ(third.Read().body, "/3:");
}

TEST(HttpServer, ATakenPortIsAClearError) {
  EchoServer server;
  NullLog log;
  const auto second = HttpServer::Create({.port = server.port()}, {}, &log);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(HttpServer::Create({.host = "no.such.host.invalid", .port = 0}, {}, &log).ok());
}

}  // namespace
}  // namespace weft::serve
