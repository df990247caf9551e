#include "comm/move_parts.h"

#include <cstring>

#include "comm/rectangles.h"

namespace weft::comm {
namespace {

int64_t UnitsOf(const Part& part) { return part.rows * BlocksOf(part.bytes, kMoveBlock); }

void Copy(const Part& part, const Rectangle& r) {
  const int64_t bytes = r.col_end - r.col_begin;
  const std::byte* from = part.data + r.row_begin * part.stride + r.col_begin;
  std::byte* to = part.to + r.row_begin * part.to_stride + r.col_begin;
  if (bytes == part.stride && bytes == part.to_stride) {
    std::memcpy(to, from, bytes * (r.row_end - r.row_begin));
    return;
  }
  for (int64_t row = r.row_begin; row < r.row_end; ++row) {
    std::memcpy(to, from, bytes);
    from += part.stride;
    to += part.to_stride;
  }
}

}  // namespace

std::string RefuseMove(const MoveArgs&) { return {}; }

int MovePhases(const MoveArgs&) { return 1; }

int64_t MoveUnits(const MoveArgs& a, int) {
  int64_t units = 0;
  for (int i = 0; i < a.count; ++i) units += UnitsOf(a.parts[i]);
  return units;
}

int64_t MoveBytes(const MoveArgs& a) {
  int64_t bytes = 0;
  for (int i = 0; i < a.count; ++i) {
    if (a.parts[i].from != a.rank) bytes += a.parts[i].rows * a.parts[i].bytes;
  }
  return bytes;
}

void ReadParts(const MoveArgs& a, int, ReadVisit visit) {
  for (int i = 0; i < a.count; ++i) {
    const Part& part = a.parts[i];
    if (part.from == a.rank || part.rows == 0 || part.bytes == 0) continue;
    visit({.from = part.from,
           .rows = part.rows,
           .bytes = part.bytes,
           .data = part.data,
           .stride = part.stride});
  }
}

int64_t RunMove(const MoveArgs& a, int, Slice units) {
  int64_t bytes = 0;
  int64_t before = 0;  // units of the parts passed so far
  for (int i = 0; i < a.count && before < units.end; ++i) {
    const Part& part = a.parts[i];
    const int64_t size = UnitsOf(part);
    const Slice mine{std::clamp<int64_t>(units.begin - before, 0, size),
                     std::clamp<int64_t>(units.end - before, 0, size)};
    before += size;
    ForRectangles(part.bytes, kMoveBlock, mine, [&](const Rectangle& r) {
      Copy(part, r);
      if (part.from != a.rank) bytes += r.elements();
    });
  }
  return bytes;
}

}  // namespace weft::comm
