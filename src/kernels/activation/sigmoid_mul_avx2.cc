// sigmoid_mul with AVX2.
#include "kernels/activation/sigmoid_mul_lanes.h"

namespace weft::kernels {
namespace {
using Lanes = SigmoidMulLanes<Lanes8>;
}  // namespace

extern const Kernel<SigmoidMulArgs> kSigmoidMulAvx2{.name = "avx2",
                                                    .isa = Isa::kAvx2,
                                                    .refuse = Lanes::Refuse,
                                                    .units = Lanes::Units,
                                                    .run = Lanes::Run};

}  // namespace weft::kernels
