#include <array>

#include "kernels/rms_norm/gated_rms_norm.h"

namespace weft::kernels {

extern const Kernel<GatedRmsNormArgs> kGatedRmsNormAvx512;
extern const Kernel<GatedRmsNormArgs> kGatedRmsNormAvx2;
extern const Kernel<GatedRmsNormArgs> kGatedRmsNormRef;

namespace {
constexpr std::array kGatedRmsNorm{&kGatedRmsNormAvx512, &kGatedRmsNormAvx2, &kGatedRmsNormRef};
}  // namespace

std::span<const Kernel<GatedRmsNormArgs>* const> GatedRmsNormKernels() { return kGatedRmsNorm; }

}  // namespace weft::kernels
