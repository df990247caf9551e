#include <array>

#include "kernels/rope/rope.h"

namespace weft::kernels {

extern const Kernel<RopeArgs> kRopeAvx2;
extern const Kernel<RopeArgs> kRopeRef;

namespace {
constexpr std::array kRope{&kRopeAvx2, &kRopeRef};
}  // namespace

std::span<const Kernel<RopeArgs>* const> RopeKernels() { return kRope; }

}  // namespace weft::kernels
