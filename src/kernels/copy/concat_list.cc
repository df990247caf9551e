#include <array>

#include "kernels/copy/concat.h"

namespace weft::kernels {

extern const Kernel<ConcatArgs> kConcatRef;

namespace {
constexpr std::array kConcat{&kConcatRef};
}  // namespace

std::span<const Kernel<ConcatArgs>* const> ConcatKernels() { return kConcat; }

}  // namespace weft::kernels
