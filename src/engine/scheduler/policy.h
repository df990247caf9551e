// In which order requests are served, and who gives way when blocks run out.
// A policy is two questions; the scheduler does the rest. The list is policy_list.cc.
// Thread: any (pure functions).
#pragma once

#include <string_view>

#include "engine/sequence.h"

namespace weft::engine {

struct Policy {
  std::string_view name;  // of --scheduling-policy
  // A strict total order: `a` is served before `b`. The victim of a preemption is the last running
  // one in this order, so the first one always gets on and progress is guaranteed.
  bool (*before)(const Sequence& a, const Sequence& b);
  // Whether `waiting`, which lacks blocks, may take those of `running`.
  bool (*displaces)(const Sequence& waiting, const Sequence& running);
};

extern const Policy kFcfs;
extern const Policy kPriority;

// nullptr if there is none of that name.
const Policy* FindPolicy(std::string_view name);
// "fcfs, priority", for messages.
std::string PolicyNames();

}  // namespace weft::engine
