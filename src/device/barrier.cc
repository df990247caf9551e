#include "device/barrier.h"

#include <utility>

#include "base/check.h"

namespace weft::device {
namespace {

constexpr int kNamesMax = 4;

}  // namespace

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
  return WaitSlowly([&] { return Passed(who, generation); }, spin_ns_, *abort_, site,
                    [&] { return NameOf(who); }, [&] { return Missing(generation); });
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
