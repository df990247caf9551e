// causal_conv with AVX-512.
#include "kernels/gdn/causal_conv_blocks.h"
#include "kernels/simd/lanes_avx512.h"

namespace weft::kernels {
namespace {
using Blocks = CausalConvBlocks<Lanes16>;
}  // namespace

extern const Kernel<CausalConvArgs> kCausalConvAvx512;
const Kernel<CausalConvArgs> kCausalConvAvx512{.name = "avx512bf16",
                                               .isa = Isa::kAvx512Bf16,
                                               .refuse = Blocks::Refuse,
                                               .units = Blocks::Units,
                                               .run = Blocks::Run};

}  // namespace weft::kernels
