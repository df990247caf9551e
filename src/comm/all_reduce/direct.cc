// All-reduce, one shot: every member reads all roots and finishes its own copy. Fewest meetings,
// most bytes: best for a decode step's few KiB.
#include "comm/reduce_steps.h"

namespace weft::comm {
namespace {

int Phases(const ReduceArgs&) { return 1; }
int64_t Units(const ReduceArgs& a, int) { return ReduceUnits(a); }
int64_t Bytes(const ReduceArgs& a) {
  return a.rows * a.cols * RootsOfPeers(a) * static_cast<int64_t>(sizeof(float));
}
void Reads(const ReduceArgs& a, int, ReadVisit visit) { ReadRoots(a, {0, ReduceUnits(a)}, visit); }
int64_t Run(const ReduceArgs& a, int, Slice units) { return FinishUnits(a, units, a.y[a.rank], 0); }

}  // namespace

extern const Method<ReduceArgs> kAllReduceDirect;
const Method<ReduceArgs> kAllReduceDirect{.name = "direct",
                                          .kind = Collective::kAllReduce,
                                          .refuse = RefuseReduce,
                                          .phases = Phases,
                                          .units = Units,
                                          .bytes = Bytes,
                                          .reads = Reads,
                                          .run = Run};

}  // namespace weft::comm
