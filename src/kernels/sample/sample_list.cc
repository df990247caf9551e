#include <array>

#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"

namespace weft::kernels {

extern const Kernel<ArgmaxArgs> kArgmaxRef;
extern const Kernel<SampleArgs> kSampleRef;

namespace {
constexpr std::array kArgmax{&kArgmaxRef};
constexpr std::array kSample{&kSampleRef};
}  // namespace

std::span<const Kernel<ArgmaxArgs>* const> ArgmaxKernels() { return kArgmax; }
std::span<const Kernel<SampleArgs>* const> SampleKernels() { return kSample; }

}  // namespace weft::kernels
