// Reduce-scatter: every member reads all roots of its own rows and finishes them.
#include "comm/reduce_steps.h"

namespace weft::comm {
namespace {

Slice Own(const ReduceArgs& a) { return OwnedUnits(a, Collective::kReduceScatter, a.rank); }

int Phases(const ReduceArgs&) { return 1; }
int64_t Units(const ReduceArgs& a, int) { return Own(a).end - Own(a).begin; }
int64_t Bytes(const ReduceArgs& a) {
  return ElementsOf(a, Own(a)) * RootsOfPeers(a) * static_cast<int64_t>(sizeof(float));
}
void Reads(const ReduceArgs& a, int, ReadVisit visit) { ReadRoots(a, Own(a), visit); }
int64_t Run(const ReduceArgs& a, int, Slice units) {
  const int64_t begin = Own(a).begin;
  const int64_t blocks = BlocksOf(a.cols, kReduceBlock);
  const int64_t first_row = blocks == 0 ? 0 : begin / blocks;
  return FinishUnits(a, {begin + units.begin, begin + units.end}, a.y[a.rank], first_row);
}

}  // namespace

extern const Method<ReduceArgs> kReduceScatterDirect;
const Method<ReduceArgs> kReduceScatterDirect{.name = "direct",
                                              .kind = Collective::kReduceScatter,
                                              .refuse = RefuseReduce,
                                              .phases = Phases,
                                              .units = Units,
                                              .bytes = Bytes,
                                              .reads = Reads,
                                              .run = Run};

}  // namespace weft::comm
