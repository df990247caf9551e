// How a worker waits for others: a few polls, then slowly: it spins, then yields, then naps, and
// gives up at its deadline or when somebody else has. Barrier and flags between ranks share it, so
// that they behave alike where there are more workers than cores.
// Thread: the worker that waits.
// Errors: kDeadline naming the missing, or the abort's reason.
#pragma once

#include <time.h>
#include <xmmintrin.h>  // and not immintrin.h, a second of every compile that sees this

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "device/ahead.h"

namespace weft::device {

inline constexpr int64_t kSpinNs = 50'000;
inline constexpr int64_t kNoDeadline = INT64_MAX;
inline constexpr int kFastPolls = 32;  // before the first look at the clock
inline constexpr int kPollsPerClock = 64;
// After this long a peer is not late but gone; burning its core helps nobody.
inline constexpr int64_t kYieldNs = 2 * kNsPerMs;
inline constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 50'000};

// One per set of ranks that run steps together. The first reason wins and stays.
class AbortFlag {
 public:
  bool is_set() const { return set_.load(std::memory_order_acquire); }
  // REQUIRES: !reason.ok().
  void Set(Status reason);
  Status reason() const;

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  Status reason_;
};

// What a wait is part of, for the message of a wait that fails.
struct WaitSite {
  int64_t deadline_ns = kNoDeadline;  // SteadyNowNs()
  int64_t step = -1;                  // < 0: not said
  const char* what = "";              // "all_reduce"
  Ahead* ahead = nullptr;             // what the waiter may fetch meanwhile
};

// The fast half, inlined where it waits: whether it has passed after a few polls, or when all is
// fetched.
template <typename Passed>
bool PassesSoon(const Passed& passed, Ahead* ahead) {
  if (ahead != nullptr) {
    while (!passed() && ahead->Fetch()) {
    }
  }
  for (int i = 0; i < kFastPolls; ++i) {
    if (passed()) [[likely]]
      return true;
    _mm_pause();
  }
  return false;
}

// Until `passed()`, which orders what it has seen by itself. At the deadline it sets `abort`, so
// that everybody who waits with it gives up with one reason: "`who` waited 1.0 s for `missing` at
// step 3".
Status WaitSlowly(FunctionRef<bool()> passed, int64_t spin_ns, AbortFlag& abort,
                  const WaitSite& site, FunctionRef<std::string()> who,
                  FunctionRef<std::string()> missing);

}  // namespace weft::device
