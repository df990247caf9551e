// Reduce-scatter by halving along the tree (reduce_steps.h).
#include "comm/reduce_steps.h"

namespace weft::comm {
namespace {

int64_t Units(const ReduceArgs& a, int phase) {
  return HalvingUnits(a, Collective::kReduceScatter, phase);
}
int64_t Bytes(const ReduceArgs& a) { return HalvingBytes(a, Collective::kReduceScatter); }
void Reads(const ReduceArgs& a, int phase, ReadVisit visit) {
  ReadHalving(a, Collective::kReduceScatter, phase, visit);
}
int64_t Run(const ReduceArgs& a, int phase, Slice units) {
  return RunHalving(a, Collective::kReduceScatter, phase, units);
}

}  // namespace

extern const Method<ReduceArgs> kReduceScatterHalving;
const Method<ReduceArgs> kReduceScatterHalving{.name = "halving",
                                               .kind = Collective::kReduceScatter,
                                               .refuse = RefuseHalving,
                                               .phases = HalvingSteps,
                                               .units = Units,
                                               .bytes = Bytes,
                                               .reads = Reads,
                                               .run = Run};

}  // namespace weft::comm
