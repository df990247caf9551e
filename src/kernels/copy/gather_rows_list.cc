#include <array>

#include "kernels/copy/gather_rows.h"

namespace weft::kernels {

extern const Kernel<GatherRowsArgs> kGatherRowsRef;

namespace {
constexpr std::array kGatherRows{&kGatherRowsRef};
}  // namespace

std::span<const Kernel<GatherRowsArgs>* const> GatherRowsKernels() { return kGatherRows; }

}  // namespace weft::kernels
