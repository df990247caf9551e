#include "serve/event_hub.h"

#include <gtest/gtest.h>

namespace weft::serve {
namespace {

TEST(EventHub, WakesOnceForAllThatComesUntilItIsTaken) {
  int woken = 0;
  const auto hub = std::make_shared<EventHub>([&] { ++woken; });
  const auto first = hub->SinkFor(1, 0), second = hub->SinkFor(2, 3);
  first({.id = 10});
  second({.id = 20});
  first({.id = 11});
  EXPECT_EQ(woken, 1);
  std::vector<EventHub::Item> items;
  hub->Take(&items);
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[1].answer, 2u);
  EXPECT_EQ(items[1].choice, 3u);
  EXPECT_EQ(items[2].event.id, 11);
  first({.id = 12});
  EXPECT_EQ(woken, 2);
}

TEST(EventHub, ASinkMayOutliveEverybody) {
  int woken = 0;
  auto hub = std::make_shared<EventHub>([&] { ++woken; });
  const auto sink = hub->SinkFor(1, 0);
  hub->Close();
  hub.reset();
  sink({.id = 1});
  EXPECT_EQ(woken, 0);
}

}  // namespace
}  // namespace weft::serve
