// Mailbox, Ring and Arena: bounded, in order, nothing lost.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/ring.h"

namespace weft {
namespace {

TEST(Mailbox, RefusesWhenFullAndKeepsTheMessageWithItsSender) {
  Mailbox<std::unique_ptr<int>> mailbox(2);
  EXPECT_EQ(mailbox.TryPush(std::make_unique<int>(1)), PushResult::kAccepted);
  EXPECT_EQ(mailbox.TryPush(std::make_unique<int>(2)), PushResult::kAccepted);
  auto third = std::make_unique<int>(3);
  EXPECT_EQ(mailbox.TryPush(std::move(third)), PushResult::kFull);
  ASSERT_NE(third, nullptr);
  std::vector<std::unique_ptr<int>> out;
  EXPECT_EQ(mailbox.PopAll(&out), 2u);
  EXPECT_EQ(*out[0] + 10 * *out[1], 21);
  EXPECT_EQ(mailbox.TryPush(std::move(third)), PushResult::kAccepted);
}

TEST(Mailbox, DeliversWhatWasAcceptedBeforeItClosed) {
  Mailbox<int> mailbox(4);
  EXPECT_EQ(mailbox.TryPush(7), PushResult::kAccepted);
  mailbox.Close();
  EXPECT_EQ(mailbox.TryPush(8), PushResult::kClosed);
  std::vector<int> out;
  EXPECT_EQ(mailbox.WaitPop(&out, INT64_MAX / 2), 1u);
  EXPECT_EQ(out, std::vector<int>{7});
  EXPECT_EQ(mailbox.WaitPop(&out, INT64_MAX / 2), 0u);
}

TEST(Mailbox, WaitEndsAtItsDeadline) {
  Mailbox<int> mailbox(4);
  std::vector<int> out;
  const int64_t start = SteadyNowNs();
  EXPECT_EQ(mailbox.WaitPop(&out, start + 20 * kNsPerMs), 0u);
  EXPECT_GE(SteadyNowNs() - start, 20 * kNsPerMs);
}

TEST(Mailbox, KeepsEachSendersOrder) {
  constexpr int kSenders = 3, kEach = 2000;
  Mailbox<std::pair<int, int>> mailbox(16);
  std::vector<std::thread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      for (int i = 0; i < kEach; ++i) {
        while (mailbox.TryPush({s, i}) != PushResult::kAccepted) std::this_thread::yield();
      }
    });
  }
  std::vector<std::pair<int, int>> out;
  int next[kSenders] = {};
  for (int seen = 0; seen < kSenders * kEach;) {
    out.clear();
    const size_t got = mailbox.WaitPop(&out, SteadyNowNs() + 10 * kNsPerSecond);
    ASSERT_GT(got, 0u) << "a push was lost";
    for (auto [sender, value] : out) ASSERT_EQ(value, next[sender]++);
    seen += static_cast<int>(got);
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(mailbox.size(), 0u);
}

TEST(Ring, HoldsItsCapacityAndWrapsAround) {
  Ring<int> ring(3);
  EXPECT_EQ(ring.capacity(), 4u);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.TryPush(round * 10 + i));
    EXPECT_FALSE(ring.TryPush(99));
    int value = -1;
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ring.TryPop(&value));
      EXPECT_EQ(value, round * 10 + i);
    }
    EXPECT_FALSE(ring.TryPop(&value));
  }
}

TEST(Ring, NotifiesOnceForEachArm) {
  Ring<int> ring(8);
  int notified = 0;
  ring.SetNotify([&] { ++notified; });
  EXPECT_TRUE(ring.TryPush(1));
  EXPECT_EQ(notified, 0) << "nobody asked";
  EXPECT_FALSE(ring.Arm()) << "something is there: do not sleep";
  int value;
  ASSERT_TRUE(ring.TryPop(&value));
  EXPECT_TRUE(ring.Arm());
  EXPECT_TRUE(ring.TryPush(2));
  EXPECT_TRUE(ring.TryPush(3));
  EXPECT_EQ(notified, 1);
}

TEST(Ring, NoWakeUpIsLostBetweenTwoThreads) {
  constexpr int kCount = 20000;
  Ring<int> ring(8);
  std::atomic<int> wakes{0};
  ring.SetNotify([&] {
    wakes.fetch_add(1);
    wakes.notify_one();
  });
  std::thread writer([&] {
    for (int i = 0; i < kCount; ++i) {
      while (!ring.TryPush(int{i})) std::this_thread::yield();
    }
  });
  for (int expected = 0; expected < kCount;) {
    int value;
    const int before = wakes.load();
    if (ring.TryPop(&value)) {
      ASSERT_EQ(value, expected++);
    } else if (ring.Arm()) {
      wakes.wait(before);  // hangs, and so fails, if a notify is lost
    }
  }
  writer.join();
}

TEST(Arena, AlignsAndRefusesWithoutChange) {
  alignas(64) std::byte bytes[256];
  Arena arena(bytes);
  EXPECT_EQ(arena.Allocate(1), bytes);
  EXPECT_EQ(arena.Allocate(1), bytes + 64);
  EXPECT_EQ(arena.Allocate(1000), nullptr);
  EXPECT_EQ(arena.AllocateArray<double>(SIZE_MAX / 4), nullptr);
  EXPECT_EQ(arena.Allocate(128), bytes + 128);
  EXPECT_EQ(arena.Allocate(1), nullptr);
  arena.Reset();
  EXPECT_EQ(arena.Allocate(16), bytes);
  EXPECT_EQ(arena.used_max(), 256u);
}

TEST(ManualClock, SleepingMovesTimeAndNeverBack) {
  ManualClock clock(5);
  clock.SleepUntil(100);
  EXPECT_EQ(clock.NowNs(), 100);
  clock.SleepUntil(50);
  EXPECT_EQ(clock.NowNs(), 100);
  clock.Advance(7);
  EXPECT_EQ(clock.NowNs(), 107);
}

TEST(SteadyClock, SleepsAtLeastUntil) {
  SteadyClock clock;
  const int64_t start = clock.NowNs();
  clock.SleepUntil(start + 2 * kNsPerMs);
  EXPECT_GE(clock.NowNs(), start + 2 * kNsPerMs);
}

}  // namespace
}  // namespace weft
