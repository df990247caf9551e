// What carries bytes between ranks: the windows they may read of each other, the meetings between
// the phases of a collective, and the counters that a test compares with the plan.
//
// Thread: AddGroup and SetWindow at start, by one thread; Sync, Arrive, Await and Count by the
// worker that they name; counters are read while no step runs. Errors: a meeting that fails
// (device/barrier.h) ends the step for all ranks; the fabric is then unusable.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/method.h"
#include "device/barrier.h"

namespace weft::comm {

struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;  // taken from peers
};

// Who is acting: a worker of a rank, as a member of a group.
struct Actor {
  int group = 0;
  int rank = 0;
  int worker = 0;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual int ranks() const = 0;
  virtual int WorkersOf(int rank) const = 0;

  // Ranks that will exchange, in order of place; the same ranks twice give the same id.
  virtual Result<int> AddGroup(std::span<const int> ranks) = 0;
  virtual std::span<const int> GroupOf(int group) const = 0;

  // Memory of `rank` that its peers may read.
  virtual void SetWindow(int rank, std::span<std::byte> window) = 0;
  virtual std::span<std::byte> WindowOf(int rank) const = 0;

  // All workers of all ranks of the group meet; Arrive and Await are the two halves.
  virtual void Arrive(const Actor& actor) = 0;
  virtual Status Await(const Actor& actor, const device::WaitSite& site) = 0;
  Status Sync(const Actor& actor, const device::WaitSite& site) {
    Arrive(actor);
    return Await(actor, site);
  }
  // Releases everybody who waits, now and later.
  virtual void Abort(Status reason) = 0;

  virtual void Count(const Actor& actor, Collective kind, int64_t calls, int64_t bytes) = 0;
  virtual Traffic TrafficOf(int rank, Collective kind) const = 0;
  Traffic TrafficOf(Collective kind) const;  // of all ranks; calls count each rank's
};

// Ranks are workers of this process, and a window is a pointer.
class ThreadFabric final : public Fabric {
 public:
  struct Options {
    std::vector<int> workers;           // [ranks] of each rank
    int64_t spin_ns = device::kSpinNs;  // 0: more workers than cores
  };
  // Errors: no rank, a rank without workers.
  static Result<std::unique_ptr<ThreadFabric>> Create(Options options);

  int ranks() const override { return static_cast<int>(workers_.size()); }
  int WorkersOf(int rank) const override { return workers_[rank]; }
  Result<int> AddGroup(std::span<const int> ranks) override;
  std::span<const int> GroupOf(int group) const override { return groups_[group]->ranks; }
  void SetWindow(int rank, std::span<std::byte> window) override { windows_[rank] = window; }
  std::span<std::byte> WindowOf(int rank) const override { return windows_[rank]; }
  void Arrive(const Actor& actor) override {
    Group& group = *groups_[actor.group];
    group.barrier.Arrive(group.firsts[actor.rank] + actor.worker);
  }
  Status Await(const Actor& actor, const device::WaitSite& site) override {
    Group& group = *groups_[actor.group];
    return group.barrier.Await(group.firsts[actor.rank] + actor.worker, site);
  }
  void Abort(Status reason) override { abort_.Set(std::move(reason)); }
  const device::AbortFlag& abort() const { return abort_; }
  void Count(const Actor& actor, Collective kind, int64_t calls, int64_t bytes) override;
  using Fabric::TrafficOf;
  Traffic TrafficOf(int rank, Collective kind) const override;

 private:
  struct Group {
    std::vector<int> ranks;
    std::vector<int> firsts;  // [all ranks] the barrier's participant of its worker 0, or -1
    device::Barrier barrier;
  };
  // One worker writes it; others read it after the step's end, which orders the accesses.
  struct alignas(128) Counters {
    Traffic traffic[kCollectives];
  };

  explicit ThreadFabric(Options options);

  std::vector<int> workers_;
  std::vector<int> first_workers_;  // [ranks + 1] rank-major index of a rank's worker 0
  const int64_t spin_ns_;
  device::AbortFlag abort_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::span<std::byte>> windows_;
  std::vector<Counters> counters_;  // [all workers]
};

// One worker's part of a collective: meets before every phase, runs its static slice, counts.
// site.what is replaced by the collective's name if empty.
template <typename Args>
Status RunCollective(Fabric& fabric, const Actor& actor, const Method<Args>& method,
                     const Args& args, device::WaitSite site) {
  if (*site.what == '\0') site.what = NameOf(method.kind).data();
  const int workers = fabric.WorkersOf(actor.rank);
  const int phases = method.phases(args);
  int64_t bytes = 0;
  for (int phase = 0; phase < phases; ++phase) {
    WEFT_RETURN_IF_ERROR(fabric.Sync(actor, site));
    bytes += method.run(args, phase,
                        kernels::SliceOf(method.units(args, phase), actor.worker, workers));
  }
  fabric.Count(actor, method.kind, actor.worker == 0 ? 1 : 0, bytes);
  return {};
}

}  // namespace weft::comm
