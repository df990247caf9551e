// The contract of finish. Unit: one row.
#include "base/bf16.h"
#include "kernels/reduce/finish.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

float AddRoots(const FinishArgs& a, int64_t row, int64_t col) {
  float stack[kLeavesMax];
  int top = 0;
  for (int i = 0; i < a.count; ++i) {
    stack[top++] = a.roots[i][row * a.strides[i] + col];
    for (int m = 0; m < a.merges[i]; ++m) {
      stack[top - 2] += stack[top - 1];
      --top;
    }
  }
  return stack[0];
}

void Run(const FinishArgs& a, Slice slice, std::byte*) {
  for (int64_t row = slice.begin; row < slice.end; ++row) {
    for (int64_t col = 0; col < a.y.cols; ++col) {
      const float root = AddRoots(a, row, col);
      const float y = a.bias != nullptr ? root + a.bias[col] : root;
      if (a.y.dtype == DType::kF32) {
        a.y.row<float>(row)[col] = y;
      } else {
        a.y.row<Bf16>(row)[col] = ToBf16(y);
      }
    }
  }
}

int64_t Units(const FinishArgs& a) { return a.y.rows; }

}  // namespace

std::string RefuseFinish(const FinishArgs& a);

extern const Kernel<FinishArgs> kFinishRef;
const Kernel<FinishArgs> kFinishRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = RefuseFinish, .units = Units, .run = Run};

}  // namespace weft::kernels
