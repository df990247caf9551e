#include <array>

#include "kernels/moe/combine.h"

namespace weft::kernels {

extern const Kernel<CombineArgs> kCombineAvx512;
extern const Kernel<CombineArgs> kCombineAvx2;
extern const Kernel<CombineArgs> kCombineRef;

namespace {
constexpr std::array kCombine{&kCombineAvx512, &kCombineAvx2, &kCombineRef};
}  // namespace

std::span<const Kernel<CombineArgs>* const> CombineKernels() { return kCombine; }

}  // namespace weft::kernels
