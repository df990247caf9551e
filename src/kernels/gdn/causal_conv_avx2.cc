// causal_conv with AVX2.
#include "kernels/gdn/causal_conv_blocks.h"

namespace weft::kernels {
namespace {
using Blocks = CausalConvBlocks<Lanes8>;
}  // namespace

extern const Kernel<CausalConvArgs> kCausalConvAvx2{.name = "avx2",
                                                    .isa = Isa::kAvx2,
                                                    .refuse = Blocks::Refuse,
                                                    .units = Blocks::Units,
                                                    .run = Blocks::Run};

}  // namespace weft::kernels
