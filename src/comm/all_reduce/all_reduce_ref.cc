// The contract of all-reduce: round(Tree(roots) + bias), the same for everybody.
#include "base/bf16.h"
#include "comm/reference.h"
#include "tensor/leaf_table.h"

namespace weft::comm {

void AllReduceRef(std::span<const ReduceArgs> members) {
  if (members.empty()) return;
  const ReduceArgs& a = members[0];
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t col = 0; col < a.cols; ++col) {
      float stack[kLeavesMax];
      int top = 0;
      for (int i = 0; i < a.root_count; ++i) {
        stack[top++] = a.roots[i][row * a.strides[i] + col];
        for (int m = 0; m < a.merges[i]; ++m, --top) stack[top - 2] += stack[top - 1];
      }
      const float y = a.bias != nullptr ? stack[0] + a.bias[col] : stack[0];
      for (size_t m = 0; m < members.size(); ++m) {
        if (a.dtype == DType::kF32) {
          a.y[m].row<float>(row)[col] = y;
        } else {
          a.y[m].row<Bf16>(row)[col] = ToBf16(y);
        }
      }
    }
  }
}

}  // namespace weft::comm
