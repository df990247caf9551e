// A bounded lock-free queue from one thread to one: how tokens leave the engine. The writer never
// waits; a full ring is the reader's fault and the writer decides (drop the client, not the step).
// Thread: TryPush from the one writer; TryPop, Arm, SetNotify from the one reader.
// Invariant: a reader that called Arm(), got true and sleeps is notified of the next push.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace weft {

template <typename T>
class Ring {
 public:
  // Room for `capacity` rounded up to a power of two. REQUIRES: capacity >= 1.
  explicit Ring(size_t capacity) : slots_(std::bit_ceil(capacity)), mask_(slots_.size() - 1) {
    WEFT_CHECK(capacity >= 1, "a ring of {} slots", capacity);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Called in the writer's thread, at most once for each Arm(): it posts the reader's own wake-up
  // (asio::post, a condition variable). Before the writer starts.
  void SetNotify(std::function<void()> notify) { notify_ = std::move(notify); }

  // Takes `value` only if it returns true.
  bool TryPush(T&& value) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);  // partner: TryPop's store
      if (tail - head_seen_ > mask_) return false;
    }
    slots_[tail & mask_] = std::move(value);
    // seq_cst, as Arm()'s two accesses: either the writer sees the flag or the reader the value.
    tail_.store(tail + 1, std::memory_order_seq_cst);
    if (armed_.load(std::memory_order_seq_cst) && armed_.exchange(false) && notify_) notify_();
    return true;
  }

  bool TryPop(T* out) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);  // partner: TryPush's store
      if (head == tail_seen_) return false;
    }
    *out = std::exchange(slots_[head & mask_], T{});
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Asks for one notify. False: something is already there (do not sleep).
  bool Arm() {
    armed_.store(true, std::memory_order_seq_cst);
    if (tail_.load(std::memory_order_seq_cst) == head_.load(std::memory_order_relaxed)) return true;
    // The writer may have taken the flag in between; a spurious notify is allowed, a lost one not.
    armed_.store(false, std::memory_order_relaxed);
    return false;
  }

  size_t capacity() const { return slots_.size(); }
  size_t size() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_acquire);
  }

 private:
  std::vector<T> slots_;
  const uint64_t mask_;
  std::function<void()> notify_;
  alignas(64) std::atomic<uint64_t> head_{0};  // reader
  uint64_t tail_seen_ = 0;                     // reader's copy of tail_
  alignas(64) std::atomic<uint64_t> tail_{0};  // writer
  uint64_t head_seen_ = 0;                     // writer's copy of head_
  alignas(64) std::atomic<bool> armed_{false};
};

}  // namespace weft
