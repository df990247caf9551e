// Ranks are processes that share no memory. A peer's window is a mirror in this process at
// addresses of its own, and Exchange brings the rectangles that the next phase reads from each
// peer, in one message for small ones. The methods then run over mirrors as they run over windows,
// so that bits cannot differ; docs/decisions/0016.
//
// A rank is one process with any number of workers; worker 0 uses the link while the others wait at
// the rank's barrier.
// Thread: as fabric.h; ShareWindows by worker 0's thread. Errors: as link.h; a rank that dies or
// stalls is named by all others.
#pragma once

#include <memory>
#include <vector>

#include "comm/fabric.h"
#include "comm/link.h"
#include "device/memory.h"

namespace weft::comm {

class ProcessFabric final : public Fabric {
 public:
  struct Options {
    int workers = 1;                    // of this process
    int64_t spin_ns = device::kSpinNs;  // 0: more workers than cores
  };
  // The link outlives it. Errors: no worker.
  static Result<std::unique_ptr<ProcessFabric>> Create(Link* link, const Options& options);

  int rank() const { return link_->rank(); }
  // Reserves a mirror for each peer's window; touched only where a method reads. After SetWindow,
  // by all ranks.
  Status ShareWindows(const device::WaitSite& site);

  int ranks() const override { return link_->ranks(); }
  int WorkersOf(int rank) const override { return rank == this->rank() ? workers_ : 1; }
  Result<int> AddGroup(std::span<const int> ranks) override;
  std::span<const int> GroupOf(int group) const override { return groups_[group]; }
  // REQUIRES: this process' rank.
  void SetWindow(int rank, std::span<std::byte> window) override;
  std::span<std::byte> WindowOf(int rank) const override { return windows_[rank]; }
  void Arrive(const Actor& actor) override { entry_.Arrive(actor.worker); }
  Status Await(const Actor& actor, const device::WaitSite& site) override;
  // Worker 0 waits for the others of its rank and sets the messages off; they wait in Complete
  // only.
  Status Post(const Actor& actor, PhaseReads reads, const device::WaitSite& site) override;
  Status Complete(const Actor& actor, const device::WaitSite& site) override;
  void Abort(Status reason) override { link_->abort().Set(std::move(reason)); }
  void Count(const Actor& actor, Collective kind, int64_t calls, int64_t bytes) override {
    counters_.Count(actor.worker, kind, calls, bytes);
  }
  using Fabric::TrafficOf;
  // Of this process' rank; others count their own.
  Traffic TrafficOf(int rank, Collective kind) const override {
    return rank == this->rank() ? counters_.Of(0, workers_, kind) : Traffic{};
  }

 private:
  ProcessFabric(Link* link, const Options& options);
  // Worker 0 waits for the others of its rank.
  Status OthersAreHere(const device::WaitSite& site);
  // Tells the link what moves between this rank and its peers.
  void List(std::span<const int> group, PhaseReads reads);

  Link* const link_;
  const int workers_;
  device::Barrier entry_, exit_;  // of this rank's workers, before and after worker 0's transfer
  std::vector<std::vector<int>> groups_;
  std::vector<std::span<std::byte>> windows_;  // [ranks]
  std::vector<device::Memory> mirrors_;        // [ranks]
  Counters counters_;
};

}  // namespace weft::comm
