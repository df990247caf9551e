#include "serve/shutdown.h"

#include "base/check.h"

namespace weft::serve {

void InFlight::Add() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void InFlight::Remove() {
  const std::lock_guard lock(mutex_);
  WEFT_CHECK(count_ > 0, "a request ended twice");
  if (--count_ == 0) none_.notify_all();
}

size_t InFlight::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool InFlight::WaitForNone(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return none_.wait_for(lock, time, [this] { return count_ == 0; });
}

}  // namespace weft::serve
