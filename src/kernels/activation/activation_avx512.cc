// silu_mul with AVX-512, 16 elements at a time, the rest of a row under a mask.
#include <string>

#include "kernels/activation/silu_mul.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/math.h"

namespace weft::kernels {

extern const Kernel<SiluMulArgs> kSiluMulRef;

namespace {

template <typename T>
void SiluMulRow(const SiluMulArgs& a, int64_t t) {
  const T* gate = a.gate.row<const T>(t);
  const T* up = a.up.row<const T>(t);
  T* y = a.y.row<T>(t);
  int64_t f = 0;
  for (; f + 16 <= a.y.cols; f += 16) Store16(y + f, Silu(Load16(gate + f)) * Load16(up + f));
  if (f < a.y.cols) {
    const v512::Mask rest = FirstLanes(a.y.cols - f);
    Store16(rest, y + f, Silu(Load16(rest, gate + f)) * Load16(rest, up + f));
  }
}

std::string Refuse(const SiluMulArgs& a) { return kSiluMulRef.refuse(a); }

int64_t Units(const SiluMulArgs& a) { return a.y.rows; }

void Run(const SiluMulArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    a.y.dtype == DType::kBF16 ? SiluMulRow<Bf16>(a, t) : SiluMulRow<float>(a, t);
  }
}

}  // namespace

extern const Kernel<SiluMulArgs> kSiluMulAvx512;
const Kernel<SiluMulArgs> kSiluMulAvx512{
    .name = "avx512bf16", .isa = Isa::kAvx512Bf16, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
