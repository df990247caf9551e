// silu_mul and add with AVX2; the rest of a row by the scalar form of the same operations.
#include <string>

#include "kernels/activation/silu_mul.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {

extern const Kernel<SiluMulArgs> kSiluMulRef;
extern const Kernel<AddArgs> kAddRef;

namespace {

template <typename T>
void SiluMulRow(const SiluMulArgs& a, int64_t t) {
  const T* gate = a.gate.row<const T>(t);
  const T* up = a.up.row<const T>(t);
  T* y = a.y.row<T>(t);
  int64_t f = 0;
  for (; f + 8 <= a.y.cols; f += 8) Store8(y + f, Silu(Load8(gate + f)) * Load8(up + f));
  for (; f < a.y.cols; ++f) {
    StoreElement(y + f, Silu(F1{LoadElement(gate + f)}).v * LoadElement(up + f));
  }
}

template <typename T>
void AddRow(const AddArgs& a, int64_t t) {
  const T* left = a.a.row<const T>(t);
  const T* right = a.b.row<const T>(t);
  T* y = a.y.row<T>(t);
  int64_t h = 0;
  for (; h + 8 <= a.y.cols; h += 8) Store8(y + h, Load8(left + h) + Load8(right + h));
  for (; h < a.y.cols; ++h) StoreElement(y + h, LoadElement(left + h) + LoadElement(right + h));
}

std::string RefuseSilu(const SiluMulArgs& a) { return kSiluMulRef.refuse(a); }
std::string RefuseAdd(const AddArgs& a) { return kAddRef.refuse(a); }

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

extern const Kernel<SiluMulArgs> kSiluMulAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = RefuseSilu, .units = SiluUnits, .run = RunSilu};
extern const Kernel<AddArgs> kAddAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = RefuseAdd, .units = AddUnits, .run = RunAdd};

}  // namespace weft::kernels
