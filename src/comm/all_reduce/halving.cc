// All-reduce by halving along the tree, then a gather of the rounded shares. log2(ranks) + 1
// meetings, but a member talks to one peer at a time: for ranks that are far apart.
#include "comm/reduce_steps.h"

namespace weft::comm {
namespace {

int Phases(const ReduceArgs& a) { return HalvingSteps(a) + 1; }
int64_t Units(const ReduceArgs& a, int phase) {
  return phase < HalvingSteps(a) ? HalvingUnits(a, Collective::kAllReduce, phase)
                                 : GatherShareUnits(a);
}
int64_t Bytes(const ReduceArgs& a) {
  return HalvingBytes(a, Collective::kAllReduce) + GatherShareBytes(a);
}
void Reads(const ReduceArgs& a, int phase, ReadVisit visit) {
  if (phase == HalvingSteps(a)) return ReadShares(a, visit);
  ReadHalving(a, Collective::kAllReduce, phase, visit);
}
int64_t Run(const ReduceArgs& a, int phase, Slice units) {
  return phase < HalvingSteps(a) ? RunHalving(a, Collective::kAllReduce, phase, units)
                                 : GatherShares(a, units);
}

}  // namespace

extern const Method<ReduceArgs> kAllReduceHalving;
const Method<ReduceArgs> kAllReduceHalving{.name = "halving",
                                           .kind = Collective::kAllReduce,
                                           .refuse = RefuseHalving,
                                           .phases = Phases,
                                           .units = Units,
                                           .bytes = Bytes,
                                           .reads = Reads,
                                           .run = Run};

}  // namespace weft::comm
