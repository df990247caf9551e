#include <array>

#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"

namespace weft::kernels {

extern const Kernel<ArgmaxArgs> kArgmaxAvx2;
extern const Kernel<ArgmaxArgs> kArgmaxRef;
extern const Kernel<SampleArgs> kSampleAvx2;
extern const Kernel<SampleArgs> kSampleRef;

namespace {
constexpr std::array kArgmax{&kArgmaxAvx2, &kArgmaxRef};
constexpr std::array kSample{&kSampleAvx2, &kSampleRef};
}  // namespace

std::span<const Kernel<ArgmaxArgs>* const> ArgmaxKernels() { return kArgmax; }
std::span<const Kernel<SampleArgs>* const> SampleKernels() { return kSample; }

}  // namespace weft::kernels
