// Where workers meet inside a step: a barrier of n participants that costs about one exchange of
// cache lines (50-200 ns for two), knows who is missing, and can be broken from outside.
//
// Every participant publishes how often it has arrived in a cache line of its own. Up to
// kFlagExchangeMax participants read each other's lines (one hop); more of them let participant 0
// collect and release (two hops, 2n lines instead of n^2).
//
// A wait spins for spin_ns, then yields, then naps: with more workers than cores the one that is
// missing needs this core. At its deadline it aborts all barriers of the same AbortFlag, so one
// stalled rank ends the step everywhere with one reason.
// Thread: participant i is one thread. Errors: kDeadline naming the missing, or the abort's reason;
// after an error the barrier is out of step and must not be used again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/wait.h"

namespace weft::device {

class Barrier {
 public:
  static constexpr int kFlagExchangeMax = 8;

  struct Options {
    int64_t spin_ns = kSpinNs;       // 0: more workers than cores
    AbortFlag* abort = nullptr;      // outlives the barrier; nullptr: one of its own
    std::vector<std::string> names;  // "worker 1 of rank 0"; empty: "participant 1"
  };
  Barrier(int participants, Options options);

  int participants() const { return participants_; }

  // Everything that participants wrote before they arrived is visible to all after the wait.
  Status Wait(int who, const WaitSite& site = {}) {
    Arrive(who);
    return Await(who, site);
  }
  // The two halves, for work that needs no peer in between. Arrive, Await, Arrive, Await, ...
  void Arrive(int who) {
    std::atomic<uint64_t>& mine = lines_[who].arrived;
    // Partner: AllArrived's loads. Only `who` writes its line.
    mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  Status Await(int who, const WaitSite& site = {}) {
    const uint64_t generation = lines_[who].arrived.load(std::memory_order_relaxed);
    if (PassesSoon([&] { return Passed(who, generation); }, site.ahead)) return {};
    return AwaitSlowly(who, generation, site);
  }

  AbortFlag& abort() { return *abort_; }

 private:
  struct alignas(128) Line {  // two lines: the adjacent-line prefetcher pairs them
    std::atomic<uint64_t> arrived{0};
  };

  bool AllArrived(uint64_t generation) const {
    for (int i = 0; i < participants_; ++i) {
      if (lines_[i].arrived.load(std::memory_order_acquire) < generation) return false;
    }
    return true;
  }
  bool Passed(int who, uint64_t generation) {
    if (participants_ <= kFlagExchangeMax) return AllArrived(generation);
    if (who != 0) return released_->arrived.load(std::memory_order_acquire) >= generation;
    if (!AllArrived(generation)) return false;
    released_->arrived.store(generation, std::memory_order_release);
    return true;
  }
  Status AwaitSlowly(int who, uint64_t generation, const WaitSite& site);
  std::string Missing(uint64_t generation) const;
  std::string NameOf(int who) const;

  const int participants_;
  const int64_t spin_ns_;
  std::unique_ptr<Line[]> lines_;   // [participants]
  std::unique_ptr<Line> released_;  // written by participant 0
  AbortFlag own_abort_;
  AbortFlag* abort_;
  std::vector<std::string> names_;
};

}  // namespace weft::device
