// The paged KV cache's layout (docs/numerics.md 9), shared by the writer and the readers.
//
// A page holds page_tokens keys and values of every kv head of one layer on one rank; per page and
// head K comes first, then V:
//   bfloat16  K [page_tokens/16][D/2][16][2]   V [page_tokens/2][D][2]
//   float32   K [page_tokens/16][D][16]        V [page_tokens][D]
// page_tokens is a multiple of 16; D is even. Page 0 is the zero page: a page that was not granted
// is read as it, and nothing ever writes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace weft::kernels {

struct KvLayout {
  std::byte* base = nullptr;  // of this layer on this rank
  DType dtype = DType::kBF16;
  int kv_heads = 0;  // on this rank
  int head_dim = 0;
  int page_tokens = 0;

  int64_t head_elements() const { return int64_t{page_tokens} * head_dim; }  // of K, and of V
  int64_t page_bytes() const { return kv_heads * 2 * head_elements() * FactsOf(dtype).block_bytes; }
  std::byte* keys(int64_t page, int head) const {
    return base + page * page_bytes() + head * 2 * head_elements() * FactsOf(dtype).block_bytes;
  }
  std::byte* values(int64_t page, int head) const {
    return keys(page, head) + head_elements() * FactsOf(dtype).block_bytes;
  }
  // Element d of the key (value) at `offset` in a page, counted from keys() (values()).
  int64_t key_index(int64_t offset, int64_t d) const {
    return dtype == DType::kBF16
               ? (offset / 16 * (head_dim / 2) + d / 2) * 32 + offset % 16 * 2 + d % 2
               : (offset / 16 * head_dim + d) * 16 + offset % 16;
  }
  int64_t value_index(int64_t offset, int64_t d) const {
    return dtype == DType::kBF16 ? offset / 2 * head_dim * 2 + d * 2 + offset % 2
                                 : offset * head_dim + d;
  }
};

}  // namespace weft::kernels
