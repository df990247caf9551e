// combine with AVX-512: columns in blocks of 128, then of 16, the rest under a mask.
#include <string>

#include "kernels/moe/combine.h"
#include "kernels/moe/combine_steps.h"
#include "kernels/simd/avx512.h"

namespace weft::kernels {

extern const Kernel<CombineArgs> kCombineRef;

namespace {

using V = v512::F16x;

template <typename T>
void Run(const CombineArgs& a, Slice slice) {
  constexpr int kVectors = 8;
  ForEachCombineUnit(
      a, slice, [&](const CombineSteps& steps, int64_t t, int64_t col, int64_t end) WEFT_INLINED {
        float* out = a.partials + t * a.rows.cols;
        const auto load = [](const T* p) WEFT_INLINED { return Load16(p); };
        const auto store = [&](int root, int64_t at, V x)
                               WEFT_INLINED { Store16(out + root * a.partials_stride + at, x); };
        for (; col + kVectors * 16 <= end; col += kVectors * 16) {
          CombineColumns<V, T, kVectors>(steps, a.roots, col, load, store);
        }
        for (; col + 16 <= end; col += 16)
          CombineColumns<V, T, 1>(steps, a.roots, col, load, store);
        if (col < end) {
          const v512::Mask rest = FirstLanes(end - col);
          CombineColumns<V, T, 1>(
              steps, a.roots, col, [&](const T* p) WEFT_INLINED { return Load16(rest, p); },
              [&](int root, int64_t at, V x)
                  WEFT_INLINED { Store16(rest, out + root * a.partials_stride + at, x); });
        }
      });
}

std::string Refuse(const CombineArgs& a) { return kCombineRef.refuse(a); }

int64_t Units(const CombineArgs& a) { return kCombineRef.units(a); }

void RunRows(const CombineArgs& a, Slice slice, std::byte*) {
  a.rows.dtype == DType::kBF16 ? Run<Bf16>(a, slice) : Run<float>(a, slice);
}

}  // namespace

extern const Kernel<CombineArgs> kCombineAvx512;
const Kernel<CombineArgs> kCombineAvx512{
    .name = "avx512", .isa = Isa::kAvx512, .refuse = Refuse, .units = Units, .run = RunRows};

}  // namespace weft::kernels
