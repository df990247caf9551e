// The contract of the KV cache's writer: row t's keys and values go to slots[t], element for
// element, and no other byte changes. A negative slot is not written.
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {
namespace {

template <typename T>
void WriteRow(const KvWriteArgs& a, int64_t t) {
  const int64_t slot = a.slots[t];
  if (slot < 0) return;
  const int64_t page = slot / a.kv.page_tokens;
  const int64_t offset = slot % a.kv.page_tokens;
  for (int head = 0; head * a.kv.head_dim < a.k.cols; ++head) {
    auto* k = reinterpret_cast<T*>(a.kv.keys(page, a.first_head + head));
    auto* v = reinterpret_cast<T*>(a.kv.values(page, a.first_head + head));
    for (int d = 0; d < a.kv.head_dim; ++d) {
      k[a.kv.key_index(offset, d)] = a.k.row<const T>(t)[head * a.kv.head_dim + d];
      v[a.kv.value_index(offset, d)] = a.v.row<const T>(t)[head * a.kv.head_dim + d];
    }
  }
}

std::string Refuse(const KvWriteArgs& a) {
  if (a.kv.dtype != DType::kBF16 && a.kv.dtype != DType::kF32) {
    return "kv dtype is " + std::string(NameOf(a.kv.dtype)) + ", not bfloat16 or float32";
  }
  if (a.k.dtype != a.kv.dtype || a.v.dtype != a.kv.dtype) return "k or v is not of the kv dtype";
  if (a.kv.head_dim < 2 || a.kv.head_dim % 2 != 0) {
    return "head_dim " + std::to_string(a.kv.head_dim) + " is odd";
  }
  if (a.k.cols % a.kv.head_dim != 0 || a.v.cols != a.k.cols ||
      a.first_head + a.k.cols / a.kv.head_dim > a.kv.kv_heads) {
    return "k and v are no run of the layout's heads";
  }
  if (a.kv.page_tokens < 16 || a.kv.page_tokens % 16 != 0) {
    return "page_tokens " + std::to_string(a.kv.page_tokens) + " is no multiple of 16";
  }
  return "";
}

int64_t Units(const KvWriteArgs& a) { return a.k.rows; }

void Run(const KvWriteArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) {
    if (a.kv.dtype == DType::kBF16) {
      WriteRow<Bf16>(a, t);
    } else {
      WriteRow<float>(a, t);
    }
  }
}

}  // namespace

extern const Kernel<KvWriteArgs> kKvWriteRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
