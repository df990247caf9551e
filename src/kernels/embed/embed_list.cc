#include <array>

#include "kernels/embed/embed.h"

namespace weft::kernels {

extern const Kernel<EmbedArgs> kEmbedRef;

namespace {

constexpr std::array<const Kernel<EmbedArgs>*, 1> kEmbedKernels{&kEmbedRef};

}  // namespace

std::span<const Kernel<EmbedArgs>* const> EmbedKernels() { return kEmbedKernels; }

}  // namespace weft::kernels
