// The contract of reduce-scatter: round(Tree(roots) + bias) at the row's owner.
#include "base/bf16.h"
#include "comm/mesh.h"
#include "comm/reference.h"
#include "tensor/leaf_table.h"

namespace weft::comm {

void ReduceScatterRef(std::span<const ReduceArgs> members) {
  for (size_t owner = 0; owner < members.size(); ++owner) {
    const ReduceArgs& a = members[owner];
    const int r = static_cast<int>(owner);
    const int64_t begin = a.starts != nullptr ? a.starts[r] : OwnedBegin(a.rows, r, a.ranks);
    const int64_t end = a.starts != nullptr ? a.starts[r + 1] : OwnedBegin(a.rows, r + 1, a.ranks);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t col = 0; col < a.cols; ++col) {
        float stack[kLeavesMax];
        int top = 0;
        for (int i = 0; i < a.root_count; ++i) {
          stack[top++] = a.roots[i][row * a.strides[i] + col];
          for (int m = 0; m < a.merges[i]; ++m, --top) stack[top - 2] += stack[top - 1];
        }
        const float y = a.bias != nullptr ? stack[0] + a.bias[col] : stack[0];
        if (a.dtype == DType::kF32) {
          a.y[r].row<float>(row - begin)[col] = y;
        } else {
          a.y[r].row<Bf16>(row - begin)[col] = ToBf16(y);
        }
      }
    }
  }
}

}  // namespace weft::comm
