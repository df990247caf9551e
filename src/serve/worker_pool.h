// Threads for what must not run on the HTTP loop: JSON, templates, tokenising.
// Thread: Submit by any; tasks run on the pool's threads, which no core is reserved for.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::serve {

class WorkerPool {
 public:
  WorkerPool(size_t threads, size_t queue_max);
  // Drops what has not begun and waits for what has.
  ~WorkerPool();

  // False: the queue is full or the pool ends; the task was not taken.
  bool Submit(std::function<void()> task);

 private:
  void Work();

  const size_t queue_max_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::serve
