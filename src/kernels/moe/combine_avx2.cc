// combine, AVX2: columns in blocks of 64, then of 8; the last ones as the contract does them.
#include <string>

#include "kernels/moe/combine.h"
#include "kernels/moe/combine_steps.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {

extern const Kernel<CombineArgs> kCombineRef;

namespace {

template <typename T>
void Run(const CombineArgs& a, Slice slice) {
  constexpr int kVectors = 8;
  ForEachCombineUnit(
      a, slice, [&](const CombineSteps& steps, int64_t t, int64_t col, int64_t end) WEFT_INLINED {
        float* out = a.partials + t * a.rows.cols;
        const auto load = [](const T* p) WEFT_INLINED { return Load8(p); };
        const auto store = [&](int root, int64_t at, F8 x)
                               WEFT_INLINED { x.Store(out + root * a.partials_stride + at); };
        for (; col + kVectors * 8 <= end; col += kVectors * 8) {
          CombineColumns<F8, T, kVectors>(steps, a.roots, col, load, store);
        }
        for (; col + 8 <= end; col += 8) CombineColumns<F8, T, 1>(steps, a.roots, col, load, store);
        for (; col < end; ++col) {
          CombineColumns<F1, T, 1>(
              steps, a.roots, col, [](const T* p) WEFT_INLINED { return F1{LoadElement(p)}; },
              [&](int root, int64_t at, F1 x)
                  WEFT_INLINED { x.Store(out + root * a.partials_stride + at); });
        }
      });
}

std::string Refuse(const CombineArgs& a) { return kCombineRef.refuse(a); }

int64_t Units(const CombineArgs& a) { return kCombineRef.units(a); }

void RunRows(const CombineArgs& a, Slice slice, std::byte*) {
  a.rows.dtype == DType::kBF16 ? Run<Bf16>(a, slice) : Run<float>(a, slice);
}

}  // namespace

extern const Kernel<CombineArgs> kCombineAvx2;
const Kernel<CombineArgs> kCombineAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = Refuse, .units = Units, .run = RunRows};

}  // namespace weft::kernels
