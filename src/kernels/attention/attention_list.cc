#include <array>

#include "kernels/attention/attention.h"

namespace weft::kernels {

extern const Kernel<AttentionArgs> kAttentionAvx512;
extern const Kernel<AttentionArgs> kAttentionAvx2;
extern const Kernel<AttentionArgs> kAttentionRef;
extern const Kernel<KvWriteArgs> kKvWriteRef;
extern const Kernel<KvWriteArgs> kKvWriteStrided;

namespace {
constexpr std::array kAttention{&kAttentionAvx512, &kAttentionAvx2, &kAttentionRef};
constexpr std::array kKvWrite{&kKvWriteStrided, &kKvWriteRef};
}  // namespace

std::span<const Kernel<AttentionArgs>* const> AttentionKernels() { return kAttention; }
std::span<const Kernel<KvWriteArgs>* const> KvWriteKernels() { return kKvWrite; }

}  // namespace weft::kernels
