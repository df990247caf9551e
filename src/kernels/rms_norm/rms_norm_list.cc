#include <array>

#include "kernels/rms_norm/rms_norm.h"

namespace weft::kernels {

extern const Kernel<RmsNormArgs> kRmsNormAvx512;
extern const Kernel<RmsNormArgs> kRmsNormAvx2;
extern const Kernel<RmsNormArgs> kRmsNormRef;

namespace {
constexpr std::array kRmsNorm{&kRmsNormAvx512, &kRmsNormAvx2, &kRmsNormRef};
}  // namespace

std::span<const Kernel<RmsNormArgs>* const> RmsNormKernels() { return kRmsNorm; }

}  // namespace weft::kernels
