// Draining: what was accepted is finished, for as long as it is given, and nothing new is taken.
// Signals are the command line's; it calls Server::Shutdown.
// Thread: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace weft::serve {

// Counts the requests in progress, and is waited on.
class InFlight {
 public:
  void Add();
  void Remove();
  size_t count() const;
  // True: there is none any more. False: the time is over.
  bool WaitForNone(std::chrono::milliseconds time) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable none_;
  size_t count_ = 0;
};

}  // namespace weft::serve
