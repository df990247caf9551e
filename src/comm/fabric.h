// What carries bytes between ranks: the windows they may read of each other, the meetings between
// the phases of a collective, and the counters that a test compares with the plan.
//
// Where ranks share memory a peer's window is read in place, and to exchange is to meet. Where they
// do not, a process holds a mirror of each peer's window, and an exchange brings what the next
// phase reads (Method::reads) into the mirrors. Thread: AddGroup and SetWindow at start, by one
// thread; Sync, Arrive, Await, Post, Complete and Count by the worker that they name; counters are
// read while no step runs. Errors: a meeting that fails (device/barrier.h) ends the step for all
// ranks; the fabric is then unusable.
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

// What members of a group read from each other in one phase: calls visit for each read of `member`,
// its place in the group, as Method::reads does.
using PhaseReads = FunctionRef<void(int member, ReadVisit visit)>;

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
  // Of the actor's rank in its group. REQUIRES: it is a member.
  int PlaceOf(const Actor& actor) const;

  // Memory of `rank` that its peers may read.
  virtual void SetWindow(int rank, std::span<std::byte> window) = 0;
  // The window or, of a rank in another process, its mirror.
  virtual std::span<std::byte> WindowOf(int rank) const = 0;

  // All workers of all ranks of the group meet; Arrive and Await are the two halves.
  virtual void Arrive(const Actor& actor) = 0;
  virtual Status Await(const Actor& actor, const device::WaitSite& site) = 0;
  Status Sync(const Actor& actor, const device::WaitSite& site) {
    Arrive(actor);
    return Await(actor, site);
  }
  // Before a phase: all workers of a rank post what they have made, and once it is complete, what
  // `reads` tells of this member can be read by pointer until the next post. Not more: ranks of
  // other processes may be elsewhere. One at a time; between the halves nothing else has to do with
  // peers.
  virtual Status Post(const Actor& actor, PhaseReads reads, const device::WaitSite& site) = 0;
  virtual Status Complete(const Actor& actor, const device::WaitSite& site) = 0;
  Status Exchange(const Actor& actor, PhaseReads reads, const device::WaitSite& site) {
    WEFT_RETURN_IF_ERROR(Post(actor, reads, site));
    return Complete(actor, site);
  }
  // Releases everybody who waits, now and later.
  virtual void Abort(Status reason) = 0;

  virtual void Count(const Actor& actor, Collective kind, int64_t calls, int64_t bytes) = 0;
  virtual Traffic TrafficOf(int rank, Collective kind) const = 0;
  Traffic TrafficOf(Collective kind) const;  // of all ranks; calls count each rank's

 protected:
  // One worker writes its own; others read them after the step's end, which orders the accesses.
  class Counters {
   public:
    explicit Counters(int workers) : lines_(static_cast<size_t>(workers)) {}
    void Count(int worker, Collective kind, int64_t calls, int64_t bytes);
    Traffic Of(int worker_begin, int worker_end, Collective kind) const;

   private:
    struct alignas(128) Line {
      Traffic traffic[kCollectives];
    };
    std::vector<Line> lines_;
  };
  // Errors: no rank, a rank that does not exist or comes twice.
  Status CheckGroup(std::span<const int> group) const;
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
  Status Post(const Actor& actor, PhaseReads, const device::WaitSite&) override {
    Arrive(actor);
    return {};
  }
  Status Complete(const Actor& actor, const device::WaitSite& site) override {
    return Await(actor, site);
  }
  void Abort(Status reason) override { abort_.Set(std::move(reason)); }
  device::AbortFlag& abort() { return abort_; }
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

  explicit ThreadFabric(Options options);

  std::vector<int> workers_;
  std::vector<int> first_workers_;  // [ranks + 1] rank-major index of a rank's worker 0
  const int64_t spin_ns_;
  device::AbortFlag abort_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::span<std::byte>> windows_;
  Counters counters_;  // of all workers
};

// One worker's part of a collective: `meet(phase)` before every phase, its static slice, the
// counts.
template <typename Args, typename Meet>
Status RunPhases(Fabric& fabric, const Actor& actor, const Method<Args>& method, const Args& args,
                 const Meet& meet) {
  const int workers = fabric.WorkersOf(actor.rank);
  const int phases = method.phases(args);
  int64_t bytes = 0;
  for (int phase = 0; phase < phases; ++phase) {
    WEFT_RETURN_IF_ERROR(meet(phase));
    bytes +=
        method.run(args, phase, kernels::SliceOf(method.units(args, phase), actor.worker, workers));
  }
  fabric.Count(actor, method.kind, actor.worker == 0 ? 1 : 0, bytes);
  return {};
}

// `members`: the args of all members of the group, as this process sees their windows.
// site.what is replaced by the collective's name if empty.
template <typename Args>
Status RunCollective(Fabric& fabric, const Actor& actor, const Method<Args>& method,
                     std::span<const Args> members, device::WaitSite site) {
  if (*site.what == '\0') site.what = NameOf(method.kind).data();
  return RunPhases(fabric, actor, method, members[fabric.PlaceOf(actor)], [&](int phase) {
    const auto reads = [&](int member, ReadVisit visit) {
      method.reads(members[member], phase, visit);
    };
    return fabric.Exchange(actor, reads, site);
  });
}

// Threads need the args of the other members for nothing.
template <typename Args>
Status RunCollective(ThreadFabric& fabric, const Actor& actor, const Method<Args>& method,
                     const Args& args, device::WaitSite site) {
  if (*site.what == '\0') site.what = NameOf(method.kind).data();
  return RunPhases(fabric, actor, method, args, [&](int) { return fabric.Sync(actor, site); });
}

}  // namespace weft::comm
