#include "serve/shutdown.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft::serve {
namespace {

TEST(InFlight, WaitsForTheLastAndNoLongerThanItMay) {
  InFlight requests;
  EXPECT_TRUE(requests.WaitForNone(std::chrono::milliseconds(0)));
  requests.Add();
  requests.Add();
  EXPECT_FALSE(requests.WaitForNone(std::chrono::milliseconds(20)));
  std::thread other([&] {
    requests.Remove();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    requests.Remove();
  });
  EXPECT_TRUE(requests.WaitForNone(std::chrono::seconds(10)));
  EXPECT_EQ(requests.count(), 0u);
  other.join();
}

}  // namespace
}  // namespace weft::serve
