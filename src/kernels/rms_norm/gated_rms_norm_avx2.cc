// gated_rms_norm with AVX2.
#include "kernels/rms_norm/gated_rms_norm_lanes.h"

namespace weft::kernels {
namespace {
using Lanes = GatedRmsNormLanes<Lanes8>;
}  // namespace

extern const Kernel<GatedRmsNormArgs> kGatedRmsNormAvx2{.name = "avx2",
                                                        .isa = Isa::kAvx2,
                                                        .refuse = Lanes::Refuse,
                                                        .units = Lanes::Units,
                                                        .run = Lanes::Run};

}  // namespace weft::kernels
