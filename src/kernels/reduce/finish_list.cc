#include <fmt/format.h>

#include <array>

#include "kernels/reduce/finish.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

extern const Kernel<FinishArgs> kFinishAvx2;
extern const Kernel<FinishArgs> kFinishRef;

std::string RefuseFinish(const FinishArgs& a) {
  if (a.count < 1 || a.count > kLeavesMax) {
    return fmt::format("{} roots, 1 to {} can be added", a.count, kLeavesMax);
  }
  if (a.y.dtype != DType::kF32 && a.y.dtype != DType::kBF16) {
    return fmt::format("no rows in {}", NameOf(a.y.dtype));
  }
  return "";
}

namespace {

constexpr std::array<const Kernel<FinishArgs>*, 2> kFinishKernels{&kFinishAvx2, &kFinishRef};

}  // namespace

std::span<const Kernel<FinishArgs>* const> FinishKernels() { return kFinishKernels; }

}  // namespace weft::kernels
