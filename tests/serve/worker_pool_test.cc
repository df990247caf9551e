#include "serve/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace weft::serve {
namespace {

TEST(WorkerPool, AFullQueueRefusesInsteadOfGrowing) {
  std::promise<void> gate;
  std::atomic<int> done{0};
  WorkerPool pool(1, 2);
  std::promise<void> begun;
  auto opened = gate.get_future().share();
  ASSERT_TRUE(pool.Submit([&] {
    begun.set_value();
    opened.wait();
    ++done;
  }));
  begun.get_future().wait();
  EXPECT_TRUE(pool.Submit([&] { ++done; }));
  std::promise<void> last;
  EXPECT_TRUE(pool.Submit([&] {
    ++done;
    last.set_value();
  }));
  EXPECT_FALSE(pool.Submit([&] { ++done; }));
  gate.set_value();
  last.get_future().wait();
  EXPECT_EQ(done, 3);
}

TEST(WorkerPool, EndingFinishesWhatBeganAndDropsTheRest) {
  std::atomic<int> done{0};
  std::promise<void> begun, gate;
  auto opened = gate.get_future().share();
  auto pool = std::make_unique<WorkerPool>(1, 10);
  pool->Submit([&] {
    begun.set_value();
    opened.wait();
    ++done;
  });
  begun.get_future().wait();
  pool->Submit([&] { done += 100; });
  std::thread ender([&] { pool.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gate.set_value();
  ender.join();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace weft::serve
