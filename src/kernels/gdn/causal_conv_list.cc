#include <array>

#include "kernels/gdn/causal_conv.h"

namespace weft::kernels {

extern const Kernel<CausalConvArgs> kCausalConvAvx512;
extern const Kernel<CausalConvArgs> kCausalConvAvx2;
extern const Kernel<CausalConvArgs> kCausalConvRef;

namespace {
constexpr std::array kCausalConv{&kCausalConvAvx512, &kCausalConvAvx2, &kCausalConvRef};
}  // namespace

std::span<const Kernel<CausalConvArgs>* const> CausalConvKernels() { return kCausalConv; }

}  // namespace weft::kernels
