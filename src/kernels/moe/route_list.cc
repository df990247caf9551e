#include <array>

#include "kernels/moe/route.h"

namespace weft::kernels {

extern const Kernel<RouteArgs> kRouteAvx2;
extern const Kernel<RouteArgs> kRouteRef;

namespace {
constexpr std::array kRoute{&kRouteAvx2, &kRouteRef};
}  // namespace

std::span<const Kernel<RouteArgs>* const> RouteKernels() { return kRoute; }

}  // namespace weft::kernels
