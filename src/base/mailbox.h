// A bounded queue from many threads to one: how requests reach the engine. A full mailbox refuses
// (the caller answers 429); it never grows and never blocks a sender.
// Thread: Push and Close from any; Pop* from the one reader.
// Invariants: messages of one sender keep their order; what was accepted before Close() is still
// delivered. Errors: PushResult; WaitPop() returns 0 at its deadline or when closed and empty.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"

namespace weft {

enum class PushResult { kAccepted, kFull, kClosed };

template <typename T>
class Mailbox {
 public:
  // REQUIRES: capacity >= 1. All memory is taken here, except what T itself takes.
  explicit Mailbox(size_t capacity) : slots_(capacity) {
    WEFT_CHECK(capacity >= 1, "a mailbox of {} messages", capacity);
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Takes `message` only if it returns kAccepted.
  PushResult TryPush(T&& message) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return PushResult::kClosed;
      const size_t size = size_.load(std::memory_order_relaxed);
      if (size == slots_.size()) return PushResult::kFull;
      slots_[(head_ + size) % slots_.size()] = std::move(message);
      size_.store(size + 1, std::memory_order_release);
    }
    arrived_.notify_one();
    return PushResult::kAccepted;
  }

  // Appends everything that has arrived to *out; returns how many. An empty mailbox costs one load,
  // because the engine looks between any two steps.
  size_t PopAll(std::vector<T>* out) {
    if (size_.load(std::memory_order_acquire) == 0) return 0;
    std::lock_guard lock(mutex_);
    return Drain(out);
  }

  // As PopAll, but waits until something arrives, the mailbox is closed, or SteadyNowNs() reaches
  // deadline_ns.
  size_t WaitPop(std::vector<T>* out, int64_t deadline_ns) {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(
        lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns)),
        [&] { return closed_ || size_.load(std::memory_order_relaxed) > 0; });
    return Drain(out);
  }

  // Refuses later messages and wakes the reader.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  // What was queued a moment ago; for metrics.
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  size_t capacity() const { return slots_.size(); }

 private:
  size_t Drain(std::vector<T>* out) {
    const size_t size = size_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < size; ++i) {
      // Replaced by an empty T, so that a delivered message holds no memory here.
      out->push_back(std::exchange(slots_[(head_ + i) % slots_.size()], T{}));
    }
    head_ = (head_ + size) % slots_.size();
    size_.store(0, std::memory_order_relaxed);
    return size;
  }

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<T> slots_;
  size_t head_ = 0;
  std::atomic<size_t> size_{0};  // written under mutex_; read without it by PopAll
  bool closed_ = false;
};

}  // namespace weft
