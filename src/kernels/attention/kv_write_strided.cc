// The KV cache's writer, by 32-bit units: in both dtypes an element pair of K (a bf16 pair, or one
// float) is one unit, 64 bytes from the next, so K is a strided copy; V of float32 is contiguous,
// and V of bfloat16 is 16-bit stores beside the neighbour key's. The order of no sum is at stake:
// equal to the contract because each element is copied once.
#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/simd/vec.h"

namespace weft::kernels {

extern const Kernel<KvWriteArgs> kKvWriteRef;

namespace {

void WriteHead16(const KvLayout& kv, int64_t page, int64_t offset, int head, const uint16_t* k,
                 const uint16_t* v) {
  auto* k_at = reinterpret_cast<uint32_t*>(kv.keys(page, head)) +
               offset / 16 * (kv.head_dim / 2) * 16 + offset % 16;
  for (int i = 0; i < kv.head_dim / 2; ++i) std::memcpy(k_at + i * 16, k + i * 2, 4);
  auto* v_at = reinterpret_cast<uint16_t*>(kv.values(page, head)) + offset / 2 * kv.head_dim * 2 +
               offset % 2;
  for (int d = 0; d < kv.head_dim; ++d) v_at[d * 2] = v[d];
}

void WriteHead32(const KvLayout& kv, int64_t page, int64_t offset, int head, const uint32_t* k,
                 const uint32_t* v) {
  auto* k_at = reinterpret_cast<uint32_t*>(kv.keys(page, head)) + offset / 16 * kv.head_dim * 16 +
               offset % 16;
  for (int d = 0; d < kv.head_dim; ++d) k_at[d * 16] = k[d];
  auto* v_at = reinterpret_cast<uint32_t*>(kv.values(page, head)) + offset * kv.head_dim;
  std::memcpy(v_at, v, static_cast<size_t>(kv.head_dim) * 4);
}

std::string Refuse(const KvWriteArgs& a) { return kKvWriteRef.refuse(a); }

int64_t Units(const KvWriteArgs& a) { return a.k.rows; }

void Run(const KvWriteArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    if (a.slots[t] < 0) continue;
    const int64_t page = a.slots[t] / a.kv.page_tokens;
    const int64_t offset = a.slots[t] % a.kv.page_tokens;
    for (int64_t at = 0; at < a.k.cols; at += a.kv.head_dim) {
      const int head = a.first_head + static_cast<int>(at / a.kv.head_dim);
      if (a.kv.dtype == DType::kBF16) {
        WriteHead16(a.kv, page, offset, head, a.k.row<const uint16_t>(t) + at,
                    a.v.row<const uint16_t>(t) + at);
      } else {
        WriteHead32(a.kv, page, offset, head, a.k.row<const uint32_t>(t) + at,
                    a.v.row<const uint32_t>(t) + at);
      }
    }
  }
}

}  // namespace

extern const Kernel<KvWriteArgs> kKvWriteStrided{
    .name = "strided", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
