// Time as an argument: the engine and every wait take a Clock, so that tests and the simulator run
// on virtual time. Nanoseconds from an arbitrary start; never the time of day.
// Thread: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace weft {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// The machine's monotonic clock: about 30 ns a call, so fast paths do not ask it.
inline int64_t SteadyNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;
  // Returns at once if at_ns has passed.
  virtual void SleepUntil(int64_t at_ns) = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t NowNs() const override { return SteadyNowNs(); }
  void SleepUntil(int64_t at_ns) override {
    std::this_thread::sleep_until(
        std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at_ns)));
  }
};

// Time that moves only when it is told to. A sleeper moves it: with one thread, a test that sleeps
// an hour takes no time and still sees the hour pass.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_ns = 0) : now_ns_(start_ns) {}
  int64_t NowNs() const override { return now_ns_.load(std::memory_order_acquire); }
  void SleepUntil(int64_t at_ns) override {
    int64_t now = now_ns_.load(std::memory_order_relaxed);
    while (now < at_ns && !now_ns_.compare_exchange_weak(now, at_ns, std::memory_order_acq_rel)) {
    }
  }
  void Advance(int64_t ns) { now_ns_.fetch_add(ns, std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_ns_;
};

}  // namespace weft
