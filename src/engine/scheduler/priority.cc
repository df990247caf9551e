#include <tuple>

#include "engine/scheduler/policy.h"

namespace weft::engine {

// Lower number first, then arrival, then acceptance. Equal priorities never displace each other:
// with all priorities equal this is fcfs.
const Policy kPriority{
    .name = "priority",
    .before =
        [](const Sequence& a, const Sequence& b) {
          const auto key = [](const Sequence& s) {
            return std::tuple(s.request->priority, s.request->arrival_ns, s.number);
          };
          return key(a) < key(b);
        },
    .displaces =
        [](const Sequence& waiting, const Sequence& running) {
          return waiting.request->priority < running.request->priority;
        },
};

}  // namespace weft::engine
