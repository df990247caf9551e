#include "serve/http/listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "serve/raw_client.h"

namespace weft::serve {
namespace {

Listener Bound(int port = 0) {
  auto listener = Listener::Bind("127.0.0.1", port);
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  return listener.ok() ? std::move(*listener) : Listener();
}

TEST(Listener, HoldsItsPortBeforeItListens) {
  Listener first = Bound();
  ASSERT_GT(first.port(), 0);
  EXPECT_TRUE(first.loopback());
  const auto second = Listener::Bind("127.0.0.1", first.port());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("127.0.0.1:" + std::to_string(first.port())),
            std::string::npos);
  EXPECT_NE(second.status().message().find("--port"), std::string::npos);
  RawClient early(first.port());
  EXPECT_FALSE(early.connected()) << "nobody would answer it";
  ASSERT_TRUE(first.Listen().ok());
  RawClient client(first.port());
  EXPECT_TRUE(client.connected());
  EXPECT_FALSE(Listener::Bind("127.0.0.1", first.port()).ok());
}

TEST(Listener, GetsAPortBackWhoseConnectionsAreStillEnding) {
  int port = 0;
  {
    Listener first = Bound();
    ASSERT_TRUE(first.Listen().ok());
    port = first.port();
    const int listening = first.Release();
    RawClient client(port);
    ASSERT_TRUE(client.connected());
    int connection = -1;
    while ((connection = accept(listening, nullptr, nullptr)) < 0 && errno == EAGAIN) {
    }
    ASSERT_GE(connection, 0);
    // Closed from this side first: this side waits.
    close(connection);
    close(listening);
  }
  Listener next = Bound(port);
  EXPECT_EQ(next.port(), port);
  EXPECT_TRUE(next.Listen().ok());
}

TEST(Listener, RefusesWhatIsNoAddress) {
  for (const auto& [host, port, said] : {std::tuple{"no.such.host.invalid", 0, "--host"},
                                         {"127.0.0.1", 65536, "--port 65536"},
                                         {"127.0.0.1", -1, "--port -1"}}) {
    const auto listener = Listener::Bind(host, port);
    ASSERT_FALSE(listener.ok()) << host;
    EXPECT_EQ(listener.status().code(), StatusCode::kInvalid);
    EXPECT_NE(listener.status().message().find(said), std::string::npos);
  }
}

TEST(IsLoopback, KnowsBothFamilies) {
  const auto four = [](const char* text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, text, &address.sin_addr);
    return IsLoopback(reinterpret_cast<const sockaddr*>(&address));
  };
  const auto six = [](const char* text) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    inet_pton(AF_INET6, text, &address.sin6_addr);
    return IsLoopback(reinterpret_cast<const sockaddr*>(&address));
  };
  EXPECT_TRUE(four("127.0.0.1") && four("127.8.9.10") && six("::1") && six("::ffff:127.0.0.1"));
  EXPECT_FALSE(four("0.0.0.0") || four("128.0.0.1") || six("::") || six("::ffff:10.0.0.1"));
}

}  // namespace
}  // namespace weft::serve
