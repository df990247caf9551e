// When every worker began and ended each step of the plans it walked, and how long it waited
// before.
//
// Thread: a worker writes its own list while a step runs; the owner reads and clears in between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace weft::exec {

struct StepEvent {
  const plan::Plan* plan = nullptr;
  int32_t step = 0;
  int32_t phase = 0;
  int32_t rows = 0;      // live rows of its plan: tokens of a body, sampled rows of a head
  bool waited = false;   // it met others first
  int64_t ready_ns = 0;  // it had come so far
  int64_t start_ns = 0;  // everybody it waits for had
  int64_t end_ns = 0;
};

class StepTrace {
 public:
  // Memory for this many events of each worker, taken now: a step allocates nothing.
  StepTrace(int workers, size_t events) : lists_(workers) {
    for (List& list : lists_) list.events.reserve(events);
  }
  int workers() const { return static_cast<int>(lists_.size()); }
  size_t capacity() const { return lists_.front().events.capacity(); }  // of one worker
  void Add(int worker, const StepEvent& event) {
    List& list = lists_[worker];
    if (list.events.size() < list.events.capacity())
      list.events.push_back(event);
    else
      ++list.dropped;
  }
  void Clear() {
    for (List& list : lists_) list.events.clear(), list.dropped = 0;
  }
  std::span<const StepEvent> EventsOf(int worker) const { return lists_[worker].events; }
  // Events that found no room.
  int64_t dropped() const {
    int64_t all = 0;
    for (const List& list : lists_) all += list.dropped;
    return all;
  }

 private:
  struct alignas(128) List {
    std::vector<StepEvent> events;
    int64_t dropped = 0;
  };
  std::vector<List> lists_;  // [workers of all ranks]
};

}  // namespace weft::exec
