// The wire, by raw sockets: framing, limits, keep-alive, disconnects.
// Covers src/serve/http/connection.cc src/serve/http/response_head.cc
#include "serve/http/session.h"

#include <gtest/gtest.h>

#include "serve/http/echo_server.h"

namespace weft::serve {
namespace {

TEST(Session, AnswersManyRequestsOnOneConnection) {
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

TEST(Session, PipelinedRequestsAreAnsweredInOrder) {
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

TEST(Session, HowTheBytesAreCutDoesNotMatter) {
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

TEST(Session, StreamsInChunksAndAsPlainBytesForHttp10) {
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

TEST(Session, ABrokenStreamHasNoLastChunk) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/broken");
  const RawAnswer answer = client.Read();
  EXPECT_EQ(answer.body, "half");
  EXPECT_FALSE(answer.complete);
  EXPECT_TRUE(client.Ended());
}

TEST(Session, LimitsEndInTheirOwnStatus) {
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

TEST(Session, TinyChunksAreCounted) {
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

TEST(Session, ABodyTooLargeIsRefusedWhileItIsStillBeingSent) {
  HttpLimits limits;
  limits.body_bytes_max = 1000;
  EchoServer server(limits);
  RawClient client(server.port());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
  client.Send(std::string(300000, 'a'));
  EXPECT_EQ(client.Read().status, 413);
}

TEST(Session, ContinueIsSentWhenItIsWaitedFor) {
  EchoServer server;
  RawClient client(server.port());
  client.Send("POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Read(true).status, 100);
  client.Send("ok");
  EXPECT_EQ(client.Read().body, "/e:ok");
  // Refused before the body: no invitation to send it.
  client.Send(
      "POST /forbidden HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Read(true).status, 403);
}

TEST(Session, SlowHeadsAndBodiesTimeOut) {
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

TEST(Session, ABodyCutShortIsAnError) {
  EchoServer server;
  RawClient client(server.port());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
  client.CloseWriting();
  EXPECT_EQ(client.Read().status, 400);
}

TEST(Session, AClientThatResetsOrClosesIsNoticedWhileItWaits) {
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

TEST(Session, AHalfClosedClientStillGetsItsAnswer) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/hold");
  client.CloseWriting();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(server.gone(), 0);
  server.AnswerHeld();
  EXPECT_EQ(client.Read().body, "late");
}

TEST(Session, ASlowReaderIsCutOffAndNobodyElseSuffers) {
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

TEST(Session, ADroppedExchangeIsAnInternalError) {
  EchoServer server;
  RawClient client(server.port());
  client.Get("/hold");
  std::this_thread::sleep_for(milliseconds(50));
  server.DropHeld();
  EXPECT_EQ(client.Read().status, 500);
}

TEST(Session, HeadGetsTheLengthAndNoBody) {
  EchoServer server;
  RawClient client(server.port());
  client.Send("HEAD /abc HTTP/1.1\r\nHost: a\r\n\r\n");
  const RawAnswer answer = client.Read(false, true);
  EXPECT_EQ(answer.Header("Content-Length"), "5");
  client.Get("/x");
  EXPECT_EQ(client.Read().body, "/x:");
}

}  // namespace
}  // namespace weft::serve
