// All-reduce, two shots: every member finishes its share and then takes the others' rounded shares.
// Each element is summed once and crosses in the model's dtype: best from tens of KiB on.
#include "comm/reduce_steps.h"

namespace weft::comm {
namespace {

int Phases(const ReduceArgs&) { return 2; }
int64_t Units(const ReduceArgs& a, int phase) {
  if (phase == 1) return GatherShareUnits(a);
  const Slice own = OwnedUnits(a, Collective::kAllReduce, a.rank);
  return own.end - own.begin;
}
int64_t Bytes(const ReduceArgs& a) {
  const Slice own = OwnedUnits(a, Collective::kAllReduce, a.rank);
  return ElementsOf(a, own) * RootsOfPeers(a) * static_cast<int64_t>(sizeof(float)) +
         GatherShareBytes(a);
}
void Reads(const ReduceArgs& a, int phase, ReadVisit visit) {
  if (phase == 1) return ReadShares(a, visit);
  ReadRoots(a, OwnedUnits(a, Collective::kAllReduce, a.rank), visit);
}
int64_t Run(const ReduceArgs& a, int phase, Slice units) {
  if (phase == 1) return GatherShares(a, units);
  const int64_t begin = OwnedUnits(a, Collective::kAllReduce, a.rank).begin;
  return FinishUnits(a, {begin + units.begin, begin + units.end}, a.y[a.rank], 0);
}

}  // namespace

extern const Method<ReduceArgs> kAllReduceTwoShot;
const Method<ReduceArgs> kAllReduceTwoShot{.name = "two_shot",
                                           .kind = Collective::kAllReduce,
                                           .refuse = RefuseReduce,
                                           .phases = Phases,
                                           .units = Units,
                                           .bytes = Bytes,
                                           .reads = Reads,
                                           .run = Run};

}  // namespace weft::comm
