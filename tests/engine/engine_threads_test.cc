// The engine under the threads it will meet: many submit and abort, one runs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

using support::Greedy;
using support::HashExecutor;
using support::HashExecutorConfig;
using support::RandomPrompt;

struct Counts {
  std::atomic<int> accepted{0}, refused{0}, ended{0}, aborted{0}, tokens{0};
};

class EngineThreads : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Engine::Create({.max_num_seqs = 8, .max_num_batched_tokens = 64, .queue_max = 32},
                               &executor_, &clock_, &log_);
    ASSERT_TRUE(made.ok());
    engine_ = std::move(made).value();
  }
  void Send(int thread, int count) {
    Rng rng(thread);
    for (int i = 0; i < count; ++i) {
      auto request = std::make_unique<Request>();
      request->id = std::to_string(thread) + "/" + std::to_string(i);
      request->prompt = RandomPrompt(&rng, 12);
      request->sampling = Greedy(1 + static_cast<int32_t>(rng.Below(20)));
      request->sink = [this](TokenEvent event) {
        counts_.tokens += event.id >= 0;
        counts_.ended += event.finish != FinishReason::kNone;
        counts_.aborted += event.finish == FinishReason::kAbort;
      };
      const std::string id = request->id;
      const Status status = engine_->Submit(std::move(request));
      if (status.ok()) {
        ++counts_.accepted;
        if (rng.Below(3) == 0) engine_->Abort(id);
      } else {
        ++counts_.refused;
        EXPECT_TRUE(status.code() == StatusCode::kExhausted ||
                    status.code() == StatusCode::kUnavailable)
            << status.message();
        std::this_thread::yield();
      }
    }
  }

  SteadyClock clock_;
  NullLog log_;
  HashExecutor executor_{HashExecutorConfig{}};
  std::unique_ptr<Engine> engine_;
  Counts counts_;
};

TEST_F(EngineThreads, EveryAcceptedRequestEndsOnceWhenDrained) {
  std::thread loop([this] { engine_->Run(); });
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t) senders.emplace_back([this, t] { Send(t, 300); });
  for (std::thread& sender : senders) sender.join();
  engine_->Stop(/*drain=*/true);
  loop.join();
  EXPECT_EQ(counts_.ended, counts_.accepted);
  EXPECT_GT(counts_.accepted, 0);
  EXPECT_EQ(engine_->Submit(std::make_unique<Request>()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(executor_.violations(), 0u) << executor_.first_violation();
}

TEST_F(EngineThreads, EveryAcceptedRequestEndsOnceWhenStoppedInTheMiddle) {
  std::thread loop([this] { engine_->Run(); });
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t) senders.emplace_back([this, t] { Send(t, 2000); });
  while (counts_.accepted < 50) std::this_thread::yield();
  engine_->Stop(/*drain=*/false);
  loop.join();
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(counts_.ended, counts_.accepted);
  EXPECT_GT(counts_.refused, 0);
}

TEST_F(EngineThreads, AnIdleEngineWakesForARequestAndForStop) {
  std::thread loop([this] { engine_->Run(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it sleeps now, most likely
  const int64_t before = SteadyNowNs();
  Send(0, 1);
  while (counts_.ended < 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  engine_->Stop(/*drain=*/true);
  loop.join();
  EXPECT_LT(SteadyNowNs() - before, 900 * kNsPerMs) << "less than the idle wait: it was woken";
}

TEST_F(EngineThreads, DestructionEndsWhatWasNeverServed) {
  Send(0, 5);
  engine_.reset();
  EXPECT_EQ(counts_.ended, 5);
  EXPECT_EQ(counts_.aborted, 5);
}

}  // namespace
}  // namespace weft::engine
