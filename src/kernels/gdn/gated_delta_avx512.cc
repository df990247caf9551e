// The gated delta rule with AVX-512.
#include "kernels/gdn/gated_delta_blocks.h"
#include "kernels/simd/lanes_avx512.h"

namespace weft::kernels {
namespace {
using Blocks = GatedDeltaBlocks<Lanes16>;
}  // namespace

extern const Kernel<GatedDeltaArgs> kGatedDeltaAvx512;
const Kernel<GatedDeltaArgs> kGatedDeltaAvx512{.name = "avx512bf16",
                                               .isa = Isa::kAvx512Bf16,
                                               .refuse = Blocks::Refuse,
                                               .units = Blocks::Units,
                                               .scratch_bytes = Blocks::ScratchBytes,
                                               .run = Blocks::Run};

}  // namespace weft::kernels
