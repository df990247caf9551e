// The contract of quantise_rows. Unit: one row.
//
// amax is the largest |x| by bits. An infinity or a NaN in the block gives d = NaN, q = 0: the
// product becomes NaN and is seen by whoever checks logits. If d = amax/127 is below the smallest
// normal float it is flushed to +0, and then q = 0 (127/amax would overflow).
// |x * (127/amax)| <= 127 * (1 + 2^-22), so q stays in [-127, 127].
#include <bit>
#include <cmath>

#include "base/bf16.h"
#include "kernels/quant/quantised_rows.h"

namespace weft::kernels {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr uint32_t kNanBits = 0x7fc00000u;
constexpr uint32_t kSmallestNormalBits = 0x00800000u;

float XAt(const View& x, int64_t row, int64_t k) {
  if (x.dtype == DType::kF32) return x.row<const float>(row)[k];
  return ToFloat(x.row<const Bf16>(row)[k]);
}

void QuantiseBlock(const float* x, int8_t* q, float* d, int32_t* sum) {
  uint32_t amax_bits = 0;
  for (int i = 0; i < kQuantBlock; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    amax_bits = bits > amax_bits ? bits : amax_bits;
  }
  const float amax = std::bit_cast<float>(amax_bits);
  const bool finite = amax_bits < kInfinityBits;
  float scale = amax / 127.0f;
  // Written out, so that the contract does not hang on FTZ being set.
  if (std::bit_cast<uint32_t>(scale) < kSmallestNormalBits) scale = 0.0f;
  *d = finite ? scale : std::bit_cast<float>(kNanBits);
  *sum = 0;
  if (!finite || scale == 0.0f) {
    for (int i = 0; i < kQuantBlock; ++i) q[i] = 0;
    return;
  }
  const float inverse = 127.0f / amax;
  for (int i = 0; i < kQuantBlock; ++i) {
    q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
    *sum += q[i];
  }
}

void Run(const QuantiseRowsArgs& a, Slice slice, std::byte*) {
  const int64_t blocks = a.out.k / kQuantBlock;
  for (int64_t row = slice.begin; row < slice.end; ++row) {
    for (int64_t block = 0; block < blocks; ++block) {
      float x[kQuantBlock];
      for (int i = 0; i < kQuantBlock; ++i) x[i] = XAt(a.x, row, block * kQuantBlock + i);
      QuantiseBlock(x, a.out.q + row * a.out.k + block * kQuantBlock,
                    a.out.d + row * blocks + block, a.out.sum + row * blocks + block);
    }
  }
}

int64_t Units(const QuantiseRowsArgs& a) { return a.out.rows; }

}  // namespace

std::string RefuseQuantiseRows(const QuantiseRowsArgs& a);

extern const Kernel<QuantiseRowsArgs> kQuantiseRowsRef;
const Kernel<QuantiseRowsArgs> kQuantiseRowsRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = RefuseQuantiseRows, .units = Units, .run = Run};

}  // namespace weft::kernels
