// The gated delta rule with AVX2.
#include "kernels/gdn/gated_delta_blocks.h"

namespace weft::kernels {
namespace {
using Blocks = GatedDeltaBlocks<Lanes8>;
}  // namespace

extern const Kernel<GatedDeltaArgs> kGatedDeltaAvx2{.name = "avx2",
                                                    .isa = Isa::kAvx2,
                                                    .refuse = Blocks::Refuse,
                                                    .units = Blocks::Units,
                                                    .scratch_bytes = Blocks::ScratchBytes,
                                                    .run = Blocks::Run};

}  // namespace weft::kernels
