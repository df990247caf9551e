#include "engine/scheduler/policy.h"

namespace weft::engine {

// A preempted sequence is older than all that never ran, so by number it waits in front.
const Policy kFcfs{
    .name = "fcfs",
    .before = [](const Sequence& a, const Sequence& b) { return a.number < b.number; },
    .displaces = [](const Sequence&, const Sequence&) { return false; },
};

}  // namespace weft::engine
