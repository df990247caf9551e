#include <array>

#include "kernels/activation/sigmoid_mul.h"

namespace weft::kernels {

extern const Kernel<SigmoidMulArgs> kSigmoidMulAvx512;
extern const Kernel<SigmoidMulArgs> kSigmoidMulAvx2;
extern const Kernel<SigmoidMulArgs> kSigmoidMulRef;

namespace {
constexpr std::array kSigmoidMul{&kSigmoidMulAvx512, &kSigmoidMulAvx2, &kSigmoidMulRef};
}  // namespace

std::span<const Kernel<SigmoidMulArgs>* const> SigmoidMulKernels() { return kSigmoidMul; }

}  // namespace weft::kernels
