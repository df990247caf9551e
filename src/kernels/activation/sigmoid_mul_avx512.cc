// sigmoid_mul with AVX-512.
#include "kernels/activation/sigmoid_mul_lanes.h"
#include "kernels/simd/lanes_avx512.h"

namespace weft::kernels {
namespace {
using Lanes = SigmoidMulLanes<Lanes16>;
}  // namespace

extern const Kernel<SigmoidMulArgs> kSigmoidMulAvx512;
const Kernel<SigmoidMulArgs> kSigmoidMulAvx512{.name = "avx512bf16",
                                               .isa = Isa::kAvx512Bf16,
                                               .refuse = Lanes::Refuse,
                                               .units = Lanes::Units,
                                               .run = Lanes::Run};

}  // namespace weft::kernels
