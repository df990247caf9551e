#include <fmt/format.h>

#include <array>

#include "kernels/quant/quantised_rows.h"

namespace weft::kernels {

extern const Kernel<QuantiseRowsArgs> kQuantiseRowsAvx512;
extern const Kernel<QuantiseRowsArgs> kQuantiseRowsAvx2;
extern const Kernel<QuantiseRowsArgs> kQuantiseRowsRef;

std::string RefuseQuantiseRows(const QuantiseRowsArgs& a) {
  if (a.x.dtype != DType::kF32 && a.x.dtype != DType::kBF16) {
    return fmt::format("no rows in {}", NameOf(a.x.dtype));
  }
  if (a.out.k % kQuantBlock != 0) {
    return fmt::format("K {} is no multiple of {}", a.out.k, kQuantBlock);
  }
  return "";
}

namespace {

constexpr std::array kQuantiseRowsKernels{&kQuantiseRowsAvx512, &kQuantiseRowsAvx2,
                                          &kQuantiseRowsRef};

}  // namespace

std::span<const Kernel<QuantiseRowsArgs>* const> QuantiseRowsKernels() {
  return kQuantiseRowsKernels;
}

}  // namespace weft::kernels
