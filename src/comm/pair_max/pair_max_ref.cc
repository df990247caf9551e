// The contract of max-pair: the largest value, then the lowest id; NaN anywhere is reported.
#include "comm/reference.h"

namespace weft::comm {

void PairMaxRef(std::span<const PairMaxArgs> members) {
  for (const PairMaxArgs& a : members) {
    for (int64_t row = 0; row < a.rows; ++row) {
      kernels::ValueIndex best;
      for (int m = 0; m < a.ranks; ++m) {
        const kernels::ValueIndex x = a.peers[m][row];
        best.has_nan |= x.has_nan;
        if (x.index < 0) continue;
        const bool wins = best.index < 0 || x.value > best.value ||
                          (x.value == best.value && x.index < best.index);
        if (wins) {
          best.value = x.value;
          best.index = x.index;
        }
      }
      a.out[row] = best;
    }
  }
}

}  // namespace weft::comm
