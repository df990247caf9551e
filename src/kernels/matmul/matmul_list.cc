#include <array>

#include "kernels/matmul/matmul.h"

namespace weft::kernels {

extern const Kernel<MatmulArgs> kMatmulRef;

namespace {

constexpr std::array<const Kernel<MatmulArgs>*, 1> kMatmulKernels{&kMatmulRef};

}  // namespace

std::span<const Kernel<MatmulArgs>* const> MatmulKernels() { return kMatmulKernels; }

}  // namespace weft::kernels
