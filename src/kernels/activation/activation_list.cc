#include <array>

#include "kernels/activation/silu_mul.h"

namespace weft::kernels {

extern const Kernel<SiluMulArgs> kSiluMulAvx512;
extern const Kernel<SiluMulArgs> kSiluMulAvx2;
extern const Kernel<SiluMulArgs> kSiluMulRef;
extern const Kernel<AddArgs> kAddAvx2;
extern const Kernel<AddArgs> kAddRef;

namespace {
constexpr std::array kSiluMul{&kSiluMulAvx512, &kSiluMulAvx2, &kSiluMulRef};
constexpr std::array kAdd{&kAddAvx2, &kAddRef};
}  // namespace

std::span<const Kernel<SiluMulArgs>* const> SiluMulKernels() { return kSiluMul; }
std::span<const Kernel<AddArgs>* const> AddKernels() { return kAdd; }

}  // namespace weft::kernels
