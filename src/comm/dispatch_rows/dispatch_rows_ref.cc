// The contract of dispatching token rows: every route of a member's experts gets its token's row.
#include "comm/reference.h"

namespace weft::comm {

void DispatchRowsRef(std::span<const DispatchRowsArgs> members) {
  for (const DispatchRowsArgs& a : members) {
    for (int h = 0; h < a.held_count; ++h) {
      const HeldRows& held = a.held[h];
      for (int64_t route = held.begin * a.top_k; route < held.end * a.top_k; ++route) {
        const int64_t to = a.place[route], from = route / a.top_k - held.begin;
        for (int p = 0; to >= 0 && p < a.planes; ++p) {
          for (int64_t b = 0; b < a.bytes[p]; ++b)
            a.to[p][to * a.to_stride[p] + b] =
                held.planes[p].data[from * held.planes[p].stride + b];
        }
      }
    }
  }
}

}  // namespace weft::comm
