#include "comm/fabric.h"

#include <algorithm>
#include <utility>

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
    : workers_(std::move(options.workers)), spin_ns_(options.spin_ns), windows_(workers_.size()) {
  first_workers_.push_back(0);
  for (int count : workers_) first_workers_.push_back(first_workers_.back() + count);
  counters_.resize(first_workers_.back());
}

Result<int> ThreadFabric::AddGroup(std::span<const int> ranks) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (std::ranges::equal(groups_[i]->ranks, ranks)) return static_cast<int>(i);
  }
  if (ranks.empty()) return Status::Invalid("a group without ranks");
  std::vector<int> firsts(workers_.size(), -1);
  std::vector<std::string> names;
  for (int rank : ranks) {
    if (rank < 0 || rank >= this->ranks()) {
      return Status::Invalid("a group with rank {} of {}", rank, this->ranks());
    }
    if (firsts[rank] >= 0) return Status::Invalid("a group with rank {} twice", rank);
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
  Traffic& traffic =
      counters_[first_workers_[actor.rank] + actor.worker].traffic[static_cast<int>(kind)];
  traffic.calls += calls;
  traffic.bytes += bytes;
}

Traffic ThreadFabric::TrafficOf(int rank, Collective kind) const {
  Traffic sum;
  for (int i = first_workers_[rank]; i < first_workers_[rank + 1]; ++i) {
    sum.calls += counters_[i].traffic[static_cast<int>(kind)].calls;
    sum.bytes += counters_[i].traffic[static_cast<int>(kind)].bytes;
  }
  return sum;
}

}  // namespace weft::comm
