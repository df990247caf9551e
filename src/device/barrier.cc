#include "device/barrier.h"

#include <sched.h>
#include <time.h>

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace weft::device {
namespace {

constexpr int kPollsPerClock = 64;
constexpr int kYieldsPerClock = 16;
// After this long a peer is not late but gone; burning its core helps nobody.
constexpr int64_t kYieldNs = 2 * kNsPerMs;
constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 50'000};
constexpr int kNamesMax = 4;

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

Barrier::Barrier(int participants, Options options)
    : participants_(participants),
      spin_ns_(options.spin_ns),
      lines_(std::make_unique<Line[]>(participants)),
      released_(std::make_unique<Line>()),
      abort_(options.abort != nullptr ? options.abort : &own_abort_),
      names_(std::move(options.names)) {
  WEFT_CHECK(participants >= 1, "a barrier of {}", participants);
  WEFT_CHECK(names_.empty() || static_cast<int>(names_.size()) == participants,
             "{} names for {} participants", names_.size(), participants);
}

Status Barrier::AwaitSlowly(int who, uint64_t generation, const WaitSite& site) {
  const int64_t start_ns = SteadyNowNs();
  int64_t now_ns = start_ns;
  while (now_ns - start_ns < spin_ns_ && now_ns < site.deadline_ns) {
    for (int i = 0; i < kPollsPerClock; ++i) {
      if (Passed(who, generation)) return {};
      _mm_pause();
    }
    if (abort_->is_set()) return abort_->reason();
    now_ns = SteadyNowNs();
  }
  while (true) {
    const bool nap = now_ns - start_ns > spin_ns_ + kYieldNs;
    for (int i = 0; i < (nap ? 1 : kYieldsPerClock); ++i) {
      if (Passed(who, generation)) return {};
      if (abort_->is_set()) return abort_->reason();
      if (nap) {
        nanosleep(&kNap, nullptr);
      } else {
        sched_yield();
      }
    }
    now_ns = SteadyNowNs();
    if (now_ns < site.deadline_ns) continue;
    if (Passed(who, generation)) return {};
    std::string message =
        fmt::format("{} waited {:.1f} s for {}", NameOf(who),
                    static_cast<double>(now_ns - start_ns) / kNsPerSecond, Missing(generation));
    if (site.step >= 0) message += fmt::format(" at step {}", site.step);
    if (*site.what != '\0') message += fmt::format(" ({})", site.what);
    abort_->Set(Status(StatusCode::kDeadline, std::move(message)));
    return abort_->reason();
  }
}

std::string Barrier::Missing(uint64_t generation) const {
  std::string out;
  int missing = 0;
  for (int i = 0; i < participants_; ++i) {
    if (lines_[i].arrived.load(std::memory_order_acquire) >= generation) continue;
    if (++missing <= kNamesMax) out += (missing > 1 ? ", " : "") + NameOf(i);
  }
  if (missing > kNamesMax) out += fmt::format(" and {} more", missing - kNamesMax);
  // Everybody came, but participant 0 has not passed the word on.
  if (missing == 0) out = NameOf(0) + " to release the others";
  return out;
}

std::string Barrier::NameOf(int who) const {
  return names_.empty() ? fmt::format("participant {}", who) : names_[who];
}

}  // namespace weft::device
