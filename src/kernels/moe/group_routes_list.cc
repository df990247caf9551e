#include <array>

#include "kernels/moe/group_routes.h"

namespace weft::kernels {

extern const Kernel<GroupRoutesArgs> kGroupRoutesRef;

namespace {
constexpr std::array kGroupRoutes{&kGroupRoutesRef};
}  // namespace

std::span<const Kernel<GroupRoutesArgs>* const> GroupRoutesKernels() { return kGroupRoutes; }

}  // namespace weft::kernels
