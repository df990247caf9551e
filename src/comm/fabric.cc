#include "comm/fabric.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace weft::comm {

Traffic Fabric::TrafficOf(Collective kind) const {
  Traffic sum;
  for (int rank = 0; rank < ranks(); ++rank) {
    const Traffic one = TrafficOf(rank, kind);
    sum.calls += one.calls;
    sum.bytes += one.bytes;
  }
  return sum;
}

int Fabric::PlaceOf(const Actor& actor) const {
  const std::span<const int> group = GroupOf(actor.group);
  const auto at = std::ranges::find(group, actor.rank);
  WEFT_CHECK(at != group.end(), "rank {} is not in group {}", actor.rank, actor.group);
  return static_cast<int>(at - group.begin());
}

Status Fabric::CheckGroup(std::span<const int> group) const {
  if (group.empty()) return Status::Invalid("a group without ranks");
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i] < 0 || group[i] >= ranks()) {
      return Status::Invalid("a group with rank {} of {}", group[i], ranks());
    }
    if (std::ranges::count(group.first(i), group[i]) > 0) {
      return Status::Invalid("a group with rank {} twice", group[i]);
    }
  }
  return {};
}

void Fabric::Counters::Count(int worker, Collective kind, int64_t calls, int64_t bytes) {
  Traffic& traffic = lines_[worker].traffic[static_cast<int>(kind)];
  traffic.calls += calls;
  traffic.bytes += bytes;
}

Traffic Fabric::Counters::Of(int worker_begin, int worker_end, Collective kind) const {
  Traffic sum;
  for (int i = worker_begin; i < worker_end; ++i) {
    sum.calls += lines_[i].traffic[static_cast<int>(kind)].calls;
    sum.bytes += lines_[i].traffic[static_cast<int>(kind)].bytes;
  }
  return sum;
}

Result<std::unique_ptr<ThreadFabric>> ThreadFabric::Create(Options options) {
  if (options.workers.empty()) return Status::Invalid("a fabric without ranks");
  for (size_t rank = 0; rank < options.workers.size(); ++rank) {
    if (options.workers[rank] < 1) {
      return Status::Invalid("rank {} has {} workers", rank, options.workers[rank]);
    }
  }
  return std::unique_ptr<ThreadFabric>(new ThreadFabric(std::move(options)));
}

ThreadFabric::ThreadFabric(Options options)
    : workers_(std::move(options.workers)),
      spin_ns_(options.spin_ns),
      windows_(workers_.size()),
      counters_(std::accumulate(workers_.begin(), workers_.end(), 0)) {
  first_workers_.push_back(0);
  for (int count : workers_) first_workers_.push_back(first_workers_.back() + count);
}

Result<int> ThreadFabric::AddGroup(std::span<const int> ranks) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (std::ranges::equal(groups_[i]->ranks, ranks)) return static_cast<int>(i);
  }
  WEFT_RETURN_IF_ERROR(CheckGroup(ranks));
  std::vector<int> firsts(workers_.size(), -1);
  std::vector<std::string> names;
  for (int rank : ranks) {
    firsts[rank] = static_cast<int>(names.size());
    for (int worker = 0; worker < workers_[rank]; ++worker) {
      names.push_back(workers_[rank] == 1 ? fmt::format("rank {}", rank)
                                          : fmt::format("worker {} of rank {}", worker, rank));
    }
  }
  const int participants = static_cast<int>(names.size());
  groups_.push_back(std::unique_ptr<Group>(new Group{
      .ranks = {ranks.begin(), ranks.end()},
      .firsts = std::move(firsts),
      .barrier = device::Barrier(
          participants, {.spin_ns = spin_ns_, .abort = &abort_, .names = std::move(names)})}));
  return static_cast<int>(groups_.size()) - 1;
}

void ThreadFabric::Count(const Actor& actor, Collective kind, int64_t calls, int64_t bytes) {
  counters_.Count(first_workers_[actor.rank] + actor.worker, kind, calls, bytes);
}

Traffic ThreadFabric::TrafficOf(int rank, Collective kind) const {
  return counters_.Of(first_workers_[rank], first_workers_[rank + 1], kind);
}

}  // namespace weft::comm
