#include "serve/http/server.h"

#include <gtest/gtest.h>

#include "serve/http/echo_server.h"

namespace weft::serve {
namespace {

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

}  // namespace
}  // namespace weft::serve
