// The contract of argmax: ids ascending, a later one wins only by a strictly larger value (so -0
// and +0 tie); NaN is skipped and sets has_nan. A row of NaN alone, or no columns, gives index -1.
#include <string>

#include "kernels/sample/argmax.h"

namespace weft::kernels {
namespace {

std::string Refuse(const ArgmaxArgs& a) {
  return a.logits.dtype == DType::kF32 ? "" : "logits are not float32";
}

int64_t Units(const ArgmaxArgs& a) { return a.logits.rows; }

void Run(const ArgmaxArgs& a, Slice slice, std::byte*) {
  for (int64_t r = slice.begin; r < slice.end; ++r) {
    const float* x = a.logits.row<const float>(r);
    ValueIndex best;
    for (int64_t i = 0; i < a.logits.cols; ++i) {
      if (x[i] != x[i]) {
        best.has_nan = 1;
      } else if (best.index < 0 || x[i] > best.value) {
        best.value = x[i];
        best.index = a.first_id + static_cast<int32_t>(i);
      }
    }
    a.out[r] = best;
  }
}

}  // namespace

extern const Kernel<ArgmaxArgs> kArgmaxRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
