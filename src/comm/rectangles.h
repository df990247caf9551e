// Cutting a matrix into units that are smaller than a row, so that one row of a decode step can be
// shared by all workers, and putting a range of units back together into few rectangles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernel.h"

namespace weft::comm {

struct Rectangle {
  int64_t row_begin, row_end, col_begin, col_end;
  int64_t elements() const { return (row_end - row_begin) * (col_end - col_begin); }
};

// Unit u of a [rows, cols] matrix is columns [b*block, (b+1)*block) of row u / BlocksOf, b = u %
// it.
inline int64_t BlocksOf(int64_t cols, int64_t block) { return (cols + block - 1) / block; }

// Calls visit(Rectangle) at most three times: the end of a row, whole rows, the begin of a row.
template <typename Visit>
void ForRectangles(int64_t cols, int64_t block, kernels::Slice units, const Visit& visit) {
  if (units.begin >= units.end) return;
  const int64_t blocks = BlocksOf(cols, block);
  int64_t row = units.begin / blocks;
  const int64_t last = units.end / blocks;
  const int64_t head = units.begin % blocks;
  const int64_t tail = units.end % blocks;
  if (row == last) {
    visit(Rectangle{row, row + 1, head * block, std::min(cols, tail * block)});
    return;
  }
  if (head > 0) {
    visit(Rectangle{row, row + 1, head * block, cols});
    ++row;
  }
  if (row < last) visit(Rectangle{row, last, 0, cols});
  if (tail > 0) visit(Rectangle{last, last + 1, 0, tail * block});
}

}  // namespace weft::comm
