#include <array>

#include "kernels/moe/grouped_matmul.h"

namespace weft::kernels {

extern const Kernel<GroupedMatmulArgs> kGroupedMatmulRef;

namespace {
constexpr std::array kGroupedMatmul{&kGroupedMatmulRef};
}  // namespace

std::span<const Kernel<GroupedMatmulArgs>* const> GroupedMatmulKernels() { return kGroupedMatmul; }

const Kernel<MatmulArgs>* ChooseForExperts(const MatmulArgs& args, Isa isa,
                                           std::string_view force) {
  MatmulArgs one = args;
  one.rows = 1;
  return Choose(MatmulKernels(), one, isa, force);
}

}  // namespace weft::kernels
