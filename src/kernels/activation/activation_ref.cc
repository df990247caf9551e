// The contracts of silu_mul and add: element by element, one rounding.
//   silu_mul: e = exp(0 - gate); y = round((gate / (1 + e)) * up).   add: y = round(a + b).
#include <string>

#include "kernels/activation/silu_mul.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {
namespace {

std::string RefuseDTypes(const View& a, const View& b, const View& y) {
  if (y.dtype != DType::kBF16 && y.dtype != DType::kF32) {
    return "y is " + std::string(NameOf(y.dtype)) + ", not bfloat16 or float32";
  }
  if (a.dtype != y.dtype || b.dtype != y.dtype) return "the operands are not of y's dtype";
  return "";
}

template <typename T>
void SiluMulRow(const SiluMulArgs& a, int64_t t) {
  const T* gate = a.gate.row<const T>(t);
  const T* up = a.up.row<const T>(t);
  T* y = a.y.row<T>(t);
  for (int64_t f = 0; f < a.y.cols; ++f) {
    StoreElement(y + f, Silu(F1{LoadElement(gate + f)}).v * LoadElement(up + f));
  }
}

template <typename T>
void AddRow(const AddArgs& a, int64_t t) {
  const T* left = a.a.row<const T>(t);
  const T* right = a.b.row<const T>(t);
  T* y = a.y.row<T>(t);
  for (int64_t h = 0; h < a.y.cols; ++h) {
    StoreElement(y + h, LoadElement(left + h) + LoadElement(right + h));
  }
}

std::string RefuseSilu(const SiluMulArgs& a) { return RefuseDTypes(a.gate, a.up, a.y); }
std::string RefuseAdd(const AddArgs& a) { return RefuseDTypes(a.a, a.b, a.y); }

int64_t SiluUnits(const SiluMulArgs& a) { return a.y.rows; }
int64_t AddUnits(const AddArgs& a) { return a.y.rows; }

void RunSilu(const SiluMulArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.y.dtype == DType::kBF16 ? SiluMulRow<Bf16>(a, t) : SiluMulRow<float>(a, t);
  }
}

void RunAdd(const AddArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.y.dtype == DType::kBF16 ? AddRow<Bf16>(a, t) : AddRow<float>(a, t);
  }
}

}  // namespace

extern const Kernel<SiluMulArgs> kSiluMulRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = RefuseSilu, .units = SiluUnits, .run = RunSilu};
extern const Kernel<AddArgs> kAddRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = RefuseAdd, .units = AddUnits, .run = RunAdd};

}  // namespace weft::kernels
