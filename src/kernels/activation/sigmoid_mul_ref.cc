// The contract of sigmoid_mul: element by element, one rounding.
#include <string>

#include "kernels/activation/sigmoid_mul.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {
namespace {

template <typename T>
void Row(const SigmoidMulArgs& a, int64_t t) {
  const T* x = a.x.row<const T>(t);
  T* y = a.y.row<T>(t);
  for (int64_t f = 0; f < a.y.cols; ++f) {
    const float gate =
        a.one_gate_a_row() ? *a.gate.row<const float>(t) : LoadElement(a.gate.row<const T>(t) + f);
    StoreElement(y + f, LoadElement(x + f) * Sigmoid(F1{gate}).v);
  }
}

std::string Refuse(const SigmoidMulArgs& a) {
  if (a.y.dtype != DType::kBF16 && a.y.dtype != DType::kF32) {
    return "y is " + std::string(NameOf(a.y.dtype)) + ", not bfloat16 or float32";
  }
  if (a.x.dtype != a.y.dtype) return "x is not of y's dtype";
  if (a.one_gate_a_row()) return "";
  if (a.gate.dtype != a.y.dtype) return "the gate is neither of y's dtype nor one float32 a row";
  if (a.gate.cols != a.y.cols) {
    return "the gate has " + std::to_string(a.gate.cols) + " columns, y " +
           std::to_string(a.y.cols);
  }
  return "";
}

int64_t Units(const SigmoidMulArgs& a) { return a.y.rows; }

void Run(const SigmoidMulArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.y.dtype == DType::kBF16 ? Row<Bf16>(a, t) : Row<float>(a, t);
  }
}

}  // namespace

extern const Kernel<SigmoidMulArgs> kSigmoidMulRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
