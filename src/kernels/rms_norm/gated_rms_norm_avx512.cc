// gated_rms_norm with AVX-512.
#include "kernels/rms_norm/gated_rms_norm_lanes.h"
#include "kernels/simd/lanes_avx512.h"

namespace weft::kernels {
namespace {
using Lanes = GatedRmsNormLanes<Lanes16>;
}  // namespace

extern const Kernel<GatedRmsNormArgs> kGatedRmsNormAvx512;
const Kernel<GatedRmsNormArgs> kGatedRmsNormAvx512{.name = "avx512bf16",
                                                   .isa = Isa::kAvx512Bf16,
                                                   .refuse = Lanes::Refuse,
                                                   .units = Lanes::Units,
                                                   .run = Lanes::Run};

}  // namespace weft::kernels
