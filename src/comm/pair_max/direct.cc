// Max-pair: every member reads all members' pairs. Unit: one row (12 bytes a member).
#include "comm/method.h"

namespace weft::comm {
namespace {

std::string Refuse(const PairMaxArgs&) { return {}; }
int Phases(const PairMaxArgs&) { return 1; }
int64_t Units(const PairMaxArgs& a, int) { return a.rows; }
int64_t Bytes(const PairMaxArgs& a) {
  return a.rows * (a.ranks - 1) * static_cast<int64_t>(sizeof(kernels::ValueIndex));
}
void Reads(const PairMaxArgs& a, int, ReadVisit visit) {
  for (int peer = 0; peer < a.ranks && a.rows > 0; ++peer) {
    if (peer == a.rank) continue;
    visit({.from = peer,
           .rows = a.rows,
           .bytes = sizeof(kernels::ValueIndex),
           .data = reinterpret_cast<const std::byte*>(a.peers[peer]),
           .stride = sizeof(kernels::ValueIndex)});
  }
}
int64_t Run(const PairMaxArgs& a, int, Slice rows) {
  int64_t bytes = 0;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    kernels::ValueIndex best;
    for (int peer = 0; peer < a.ranks; ++peer) {
      best = kernels::Better(best, a.peers[peer][row]);
      if (peer != a.rank) bytes += sizeof(kernels::ValueIndex);
    }
    a.out[row] = best;
  }
  return bytes;
}

}  // namespace

extern const Method<PairMaxArgs> kPairMaxDirect;
const Method<PairMaxArgs> kPairMaxDirect{.name = "direct",
                                         .kind = Collective::kPairMax,
                                         .refuse = Refuse,
                                         .phases = Phases,
                                         .units = Units,
                                         .bytes = Bytes,
                                         .reads = Reads,
                                         .run = Run};

}  // namespace weft::comm
