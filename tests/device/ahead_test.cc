#include "device/ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "device/barrier.h"

namespace weft::device {
namespace {

int Left(Ahead& ahead) {
  int calls = 0;
  while (ahead.Fetch()) ++calls;
  return calls;
}

TEST(Ahead, AsksForEveryLineOnceAndGoesOnWhereItStood) {
  const std::vector<std::byte> memory(64 * 11);
  const std::vector<std::span<const std::byte>> pieces{{memory.data(), 64 * 8},
                                                       {memory.data() + 64 * 8, 64 * 3}};
  Ahead ahead{pieces};
  EXPECT_TRUE(ahead.IsOf(pieces));
  EXPECT_TRUE(ahead.Fetch());
  EXPECT_EQ(Left(ahead), 2) << "four lines at a time, none over the end of a piece";
  EXPECT_FALSE(ahead.Fetch());
  Ahead nothing;
  EXPECT_FALSE(nothing.Fetch());
  EXPECT_FALSE(nothing.IsOf(pieces));
}

// Who waits has fetched what there was; who comes last has no time for it.
TEST(Ahead, ABarrierFetchesWhileItWaits) {
  const std::vector<std::byte> memory(64 * 64);
  const std::vector<std::span<const std::byte>> pieces{{memory.data(), memory.size()}};
  Barrier barrier(2, {});
  Ahead early{pieces}, late{pieces};
  std::thread waiter([&] { EXPECT_TRUE(barrier.Wait(0, {.ahead = &early}).ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(barrier.Wait(1, {.ahead = &late}).ok());
  waiter.join();
  EXPECT_EQ(Left(early), 0);
  EXPECT_EQ(Left(late), 16);
}

}  // namespace
}  // namespace weft::device
