// Ranks are processes of an MPI job. A peer's window is a mirror in this process at addresses of
// its own, and Exchange brings the rectangles that the next phase reads from each peer, in one
// message for small ones. The methods then run over mirrors as they run over windows, so that bits
// cannot differ; docs/decisions/0016.
//
// A rank is one process with any number of workers; worker 0 talks to MPI while the others wait at
// the rank's barrier.
// Thread: as fabric.h; what is not in Fabric is called by worker 0's thread outside of steps, by
// all ranks in the same order. Errors: as mpi_link.h; a rank that dies or stalls is named by all
// others.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/fabric.h"
#include "comm/mpi_link.h"
#include "device/memory.h"

namespace weft::comm {

class MpiFabric final : public Fabric {
 public:
  struct Options {
    int workers = 1;  // of this process
    MpiLink::Options link;
  };
  static Result<std::unique_ptr<MpiFabric>> Create(const Options& options,
                                                   const device::WaitSite& site);

  // Start-up.
  int rank() const { return link_->rank(); }
  // Reserves a mirror for each peer's window; touched only where a method reads. After SetWindow.
  Status ShareWindows(const device::WaitSite& site);
  // Errors: kInvalid with both values, on all ranks, if not every rank says the same.
  // REQUIRES: at most kFactBytes bytes.
  static constexpr int kFactBytes = 256;
  Status CheckSame(std::string_view what, std::string_view mine, const device::WaitSite& site);
  // The least of what the ranks say: what all of them have in common of an ordered thing.
  Result<int64_t> Least(int64_t mine, const device::WaitSite& site);

  // Around a step.
  // Rank 0's bytes become everybody's. Allocates only what `bytes` has no capacity for.
  Status Broadcast(std::vector<std::byte>* bytes, const device::WaitSite& site);
  // On rank 0 the first error by rank, told as that rank's; on others their own.
  Status GatherStatus(const Status& mine, const device::WaitSite& site);

  // Ends MPI together with all others. Without it MPI is left as it is.
  Status Close(const device::WaitSite& site) { return link_->Close(site); }
  MpiLink::Traffic wire() const { return link_->traffic(); }

  int ranks() const override { return link_->ranks(); }
  int WorkersOf(int rank) const override { return rank == this->rank() ? workers_ : 1; }
  Result<int> AddGroup(std::span<const int> ranks) override;
  std::span<const int> GroupOf(int group) const override { return groups_[group]; }
  // REQUIRES: this process' rank.
  void SetWindow(int rank, std::span<std::byte> window) override;
  std::span<std::byte> WindowOf(int rank) const override { return windows_[rank]; }
  void Arrive(const Actor& actor) override { entry_.Arrive(actor.worker); }
  Status Await(const Actor& actor, const device::WaitSite& site) override;
  Status Exchange(const Actor& actor, PhaseReads reads, const device::WaitSite& site) override;
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
  MpiFabric(std::unique_ptr<MpiLink> link, const Options& options);
  // Behind the arrival of this rank's workers: worker 0 does `talk`, and then all go on.
  Status WhileOthersWait(const Actor& actor, const device::WaitSite& site,
                         FunctionRef<Status()> talk);
  Status Pull(std::span<const int> group, PhaseReads reads, const device::WaitSite& site);
  // `all` is [ranks] pieces of mine.size() bytes, in the order of ranks.
  Status Share(std::span<const std::byte> mine, std::span<std::byte> all,
               const device::WaitSite& site);

  std::unique_ptr<MpiLink> link_;
  const int workers_;
  device::Barrier entry_, exit_;  // of this rank's workers, before and after worker 0 talks
  std::vector<std::vector<int>> groups_;
  std::vector<std::span<std::byte>> windows_;  // [ranks]
  std::vector<device::Memory> mirrors_;
  std::vector<char> records_;  // of GatherStatus
  Counters counters_;
};

}  // namespace weft::comm
