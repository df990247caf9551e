// Who has finished which tile of a step: one counter a worker, in a cache line that its peers read.
//
// Every step raises each worker's counter by the same number of tiles, whether or not the worker
// had work in them. So what a worker has to see is its own count at the step's start plus the
// tile's number: the counter is tile and generation in one, nothing is reset between steps, and a
// worker that is a step ahead never looks like one that is behind. Thread: a worker raises its own
// counter alone and reads all. Ranks share memory. Errors: kDeadline naming who waited for which
// tile of whom, or the abort's reason; the step has then ended for all ranks and the flags must not
// be used again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/wait.h"

namespace weft::fused {

class TileFlags {
 public:
  struct Options {
    std::vector<int> workers;            // [ranks] of each rank
    int64_t spin_ns = device::kSpinNs;   // 0: more workers than cores
    device::AbortFlag* abort = nullptr;  // outlives the flags; nullptr: one of its own
  };
  explicit TileFlags(Options options);

  int ranks() const { return static_cast<int>(firsts_.size()) - 1; }
  // A worker's number among those of all ranks.
  int WorkerOf(int rank, int worker) const { return firsts_[rank] + worker; }
  // Tiles that the worker has raised so far.
  uint64_t Raised(int who) const { return lines_[who].raised.load(std::memory_order_relaxed); }

  // Everything that the worker wrote before is visible to whoever has waited for this tile.
  void Raise(int who) {
    std::atomic<uint64_t>& mine = lines_[who].raised;
    // Partner: Up's loads. Only `who` writes its line.
    mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // All workers of `rank` have raised `count` tiles.
  bool Up(int rank, uint64_t count) const {
    for (int i = firsts_[rank]; i < firsts_[rank + 1]; ++i) {
      if (lines_[i].raised.load(std::memory_order_acquire) < count) return false;
    }
    return true;
  }
  Status Await(int who, int rank, uint64_t count, const device::WaitSite& site);
  // Of all ranks.
  Status AwaitAll(int who, uint64_t count, const device::WaitSite& site);

 private:
  struct alignas(128) Line {  // two lines: the adjacent-line prefetcher pairs them
    std::atomic<uint64_t> raised{0};
  };

  std::string NameOf(int who) const;

  std::vector<int> firsts_;  // [ranks + 1]
  const int64_t spin_ns_;
  std::unique_ptr<Line[]> lines_;  // [workers of all ranks]
  device::AbortFlag own_abort_;
  device::AbortFlag* abort_;
};

// When a fused step got where, for traces: SteadyNowNs().
struct TileTimes {
  int64_t multiplied_ns = 0;  // the worker's last tile was raised
  int64_t seen_ns = 0;        // it saw its peers' last tile
};

}  // namespace weft::fused
