#include "device/wait.h"

#include <sched.h>
#include <time.h>
#include <xmmintrin.h>

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace weft::device {
namespace {

constexpr int kYieldsPerClock = 16;

}  // namespace

void AbortFlag::Set(Status reason) {
  WEFT_CHECK(!reason.ok(), "an abort needs a reason");
  std::lock_guard lock(mutex_);
  if (set_.load(std::memory_order_relaxed)) return;
  reason_ = std::move(reason);
  set_.store(true, std::memory_order_release);
}

Status AbortFlag::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

Status WaitSlowly(FunctionRef<bool()> passed, int64_t spin_ns, AbortFlag& abort,
                  const WaitSite& site, FunctionRef<std::string()> who,
                  FunctionRef<std::string()> missing) {
  const int64_t start_ns = SteadyNowNs();
  int64_t now_ns = start_ns;
  while (now_ns - start_ns < spin_ns && now_ns < site.deadline_ns) {
    for (int i = 0; i < kPollsPerClock; ++i) {
      if (passed()) return {};
      _mm_pause();
    }
    if (abort.is_set()) return abort.reason();
    now_ns = SteadyNowNs();
  }
  while (true) {
    const bool nap = now_ns - start_ns > spin_ns + kYieldNs;
    for (int i = 0; i < (nap ? 1 : kYieldsPerClock); ++i) {
      if (passed()) return {};
      if (abort.is_set()) return abort.reason();
      if (nap) {
        nanosleep(&kNap, nullptr);
      } else {
        sched_yield();
      }
    }
    now_ns = SteadyNowNs();
    if (now_ns < site.deadline_ns) continue;
    if (passed()) return {};
    std::string message =
        fmt::format("{} waited {:.1f} s for {}", who(),
                    static_cast<double>(now_ns - start_ns) / kNsPerSecond, missing());
    if (site.step >= 0) message += fmt::format(" at step {}", site.step);
    if (*site.what != '\0') message += fmt::format(" ({})", site.what);
    abort.Set(Status(StatusCode::kDeadline, std::move(message)));
    return abort.reason();
  }
}

}  // namespace weft::device
