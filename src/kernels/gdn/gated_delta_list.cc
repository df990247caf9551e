#include <array>

#include "kernels/gdn/gated_delta.h"

namespace weft::kernels {

extern const Kernel<GatedDeltaArgs> kGatedDeltaAvx512;
extern const Kernel<GatedDeltaArgs> kGatedDeltaAvx2;
extern const Kernel<GatedDeltaArgs> kGatedDeltaRef;

namespace {
constexpr std::array kGatedDelta{&kGatedDeltaAvx512, &kGatedDeltaAvx2, &kGatedDeltaRef};
}  // namespace

std::span<const Kernel<GatedDeltaArgs>* const> GatedDeltaKernels() { return kGatedDelta; }

}  // namespace weft::kernels
