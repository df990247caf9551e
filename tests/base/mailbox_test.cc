#include "base/mailbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/clock.h"

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

}  // namespace
}  // namespace weft
