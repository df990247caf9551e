// Dispatch of token rows: every member copies the rows that its experts work on from where they
// lie, once each, to all of their routes. An all-to-all whose counts nobody sends: all members know
// all routes. Nothing is packed. Unit: up to kMoveBlock bytes of one plane of one token's row. A
// unit without a route is a look at top_k places.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/move_parts.h"
#include "comm/rectangles.h"

namespace weft::comm {
namespace {

std::string Refuse(const DispatchRowsArgs&) { return {}; }

int Phases(const DispatchRowsArgs&) { return 1; }

int64_t RowBytes(const DispatchRowsArgs& a) {
  int64_t bytes = 0;
  for (int p = 0; p < a.planes; ++p) bytes += a.bytes[p];
  return bytes;
}

int64_t RowUnits(const DispatchRowsArgs& a) {
  int64_t units = 0;
  for (int p = 0; p < a.planes; ++p) units += BlocksOf(a.bytes[p], kMoveBlock);
  return units;
}

int64_t Units(const DispatchRowsArgs& a, int) { return a.count == 0 ? 0 : a.tokens * RowUnits(a); }

// One of the token's experts is this member's.
bool Wants(const DispatchRowsArgs& a, int64_t token) {
  const int32_t* ids = a.ids + token * a.top_k;
  return std::any_of(ids, ids + a.top_k,
                     [&](int32_t id) { return id >= a.first && id < a.first + a.count; });
}

// Calls visit(held, first, last) for every run of wanted tokens that another member holds.
template <typename Visit>
void ForRuns(const DispatchRowsArgs& a, const Visit& visit) {
  if (a.count == 0) return;
  for (int h = 0; h < a.held_count; ++h) {
    const HeldRows& held = a.held[h];
    if (held.from == a.rank) continue;
    for (int64_t first = held.begin; first < held.end;) {
      int64_t last = first;
      while (last < held.end && Wants(a, last)) ++last;
      if (last > first) visit(held, first, last);
      first = last + 1;
    }
  }
}

// Before a step nobody knows the routes: then all rows of the others, which no step exceeds.
int64_t Bytes(const DispatchRowsArgs& a) {
  int64_t rows = 0;
  if (a.ids != nullptr) {
    ForRuns(a, [&](const HeldRows&, int64_t first, int64_t last) { rows += last - first; });
  } else {
    for (int h = 0; h < a.held_count && a.count > 0; ++h)
      rows += a.held[h].from == a.rank ? 0 : a.held[h].end - a.held[h].begin;
  }
  return rows * RowBytes(a);
}

void Reads(const DispatchRowsArgs& a, int, ReadVisit visit) {
  ForRuns(a, [&](const HeldRows& held, int64_t first, int64_t last) {
    for (int p = 0; p < a.planes; ++p) {
      if (a.bytes[p] == 0) continue;
      const RowPlane& plane = held.planes[p];
      visit({.from = held.from,
             .rows = last - first,
             .bytes = a.bytes[p],
             .data = plane.data + (first - held.begin) * plane.stride,
             .stride = plane.stride});
    }
  });
}

int64_t Run(const DispatchRowsArgs& a, int, Slice units) {
  const int64_t row_units = RowUnits(a);
  int64_t taken = 0;
  const HeldRows* held = nullptr;
  for (int64_t unit = units.begin; unit < units.end;) {
    const int64_t token = unit / row_units, next = std::min(units.end, (token + 1) * row_units);
    const int32_t* place = a.place + token * a.top_k;
    if (std::all_of(place, place + a.top_k, [](int32_t to) { return to < 0; })) {
      unit = next;
      continue;
    }
    if (held == nullptr || token < held->begin || token >= held->end) {
      held = std::find_if(a.held, a.held + a.held_count,
                          [&](const HeldRows& h) { return token >= h.begin && token < h.end; });
      WEFT_CHECK(held != a.held + a.held_count, "nobody holds row {}", token);
    }
    int64_t block = unit % row_units;
    for (int p = 0; p < a.planes && unit < next; ++p) {
      const int64_t blocks = BlocksOf(a.bytes[p], kMoveBlock);
      const std::byte* row = held->planes[p].data + (token - held->begin) * held->planes[p].stride;
      for (; block < blocks && unit < next; ++block, ++unit) {
        const int64_t begin = block * kMoveBlock, size = std::min(kMoveBlock, a.bytes[p] - begin);
        for (int i = 0; i < a.top_k; ++i) {
          if (place[i] >= 0)
            std::memcpy(a.to[p] + place[i] * a.to_stride[p] + begin, row + begin,
                        static_cast<size_t>(size));
        }
        if (held->from != a.rank) taken += size;
      }
      block -= blocks;
    }
  }
  return taken;
}

}  // namespace

extern const Method<DispatchRowsArgs> kDispatchRowsDirect;
const Method<DispatchRowsArgs> kDispatchRowsDirect{.name = "direct",
                                                   .kind = Collective::kDispatchRows,
                                                   .refuse = Refuse,
                                                   .phases = Phases,
                                                   .units = Units,
                                                   .bytes = Bytes,
                                                   .reads = Reads,
                                                   .run = Run};

}  // namespace weft::comm
